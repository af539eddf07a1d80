// Queries that a network may contain, and their results. Composer 0.20.9 (QueryFile.validate and QueryCompiler)
// accepts and rejects the same queries for the same model.
import { describe, expect, it } from 'vitest'
import { checkNetwork } from '../../src/network/index.ts'
import { gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.test
enum Colour { o RED o BLUE }
concept Line { o String what o Double amount o Integer[] sizes optional }
abstract asset Base identified by id { o String id }
asset Thing extends Base {
  o String note default="" o Integer n default=0 o Boolean b default=false o DateTime made optional
  o Colour colour default="RED" o Line line optional o Line[] lines optional
  o String[] tags optional o Integer[] ns optional o DateTime[] days optional o Colour[] colours optional
  o Boolean[] flags optional --> Person owner optional --> Person[] owners optional
}
participant Person identified by name { o String name o Integer age default=0 }
@returns(String[])
transaction Find { o String code }
event E { }`

/** Returns the errors and warnings of a network with this query. */
function findingsOf(statement: string) {
  const text = `query q { description: "d" statement: ${statement} }`
  const files = {
    'package.json': JSON.stringify({ name: 'x', version: '1.0.0' }),
    'models/m.cto': MODEL,
    'queries.qry': text,
    'permissions.acl': '',
  }
  const entries = Object.entries(files).map(([path, each]) => [path, Buffer.from(each)] as const)
  const { findings } = checkNetwork({ packed: null, files: new Map(entries) })
  const ofKind = (kind: string) =>
    findings.filter(({ path, severity }) => path === 'queries.qry' && severity === kind)
  return {
    errors: ofKind('error').map(({ message }) => message),
    warnings: ofKind('warning').map(({ message }) => message),
  }
}
const where = (condition: string) => `SELECT org.test.Thing WHERE (${condition})`

describe('deployment', () => {
  it.each([
    'tags == _$p',
    'tags != _$p',
    'tags <= _$p',
    'ns <= _$p',
    'days >= _$p',
    'colours == _$p',
    'owners == _$p',
    'flags == _$p',
    '_$p == tags',
    'lines.what == _$p',
    'lines.sizes == _$p',
    'colour < "X"',
    'colour < _$p',
    'owner < _$p',
    'n == 1.5',
    'n == 0x10',
    'n == (1)',
    'tags CONTAINS ["a", ]',
    'made == "2020"',
    'made > "Jan 1 2020"',
    'tags CONTAINS _$p',
    '_$p CONTAINS tags',
    '"a" CONTAINS tags',
    '["a"] CONTAINS tags',
    'tags CONTAINS ["a", _$p]',
    '(what == "a") CONTAINS lines',
    'lines CONTAINS (sizes == _$p)',
    'note == _$p OR n == _$p',
    'note == _$p OR owner == _$p',
  ])('a network may have a query WHERE %s', (condition) => {
    expect(findingsOf(where(condition))).toEqual({ errors: [], warnings: [] })
  })

  it.each([
    ['line == _$p', 'line is an object, which equals no value'],
    ['lines == _$p', 'lines is an object, which equals no value'],
    ['owner.name == "x"', 'owner.name is a property of another resource'],
    ['owner.age > _$p', 'owner.age is a property of another resource'],
    ['owner == "resource:x#y"', '"resource:x#y" does not have the type of owner'],
    ['tags CONTAINS 5', '5 does not have the type of tags'],
    ['note CONTAINS "a"', 'note is not an array'],
    ['nothing CONTAINS "a"', 'Thing has no property nothing'],
    ['lines CONTAINS "a"', 'the elements of lines are objects, which equal no value'],
    ['line CONTAINS (what == "a")', 'line is not an array'],
    ['owners CONTAINS (name == "a")', 'the elements of owners are relationships'],
  ])(
    'a network may have a query WHERE %s, with a warning that nothing matches',
    (condition, warning) => {
      expect(findingsOf(where(condition))).toEqual({
        errors: [],
        warnings: [`${warning}: no resource matches (query on Thing)`],
      })
    },
  )

  it.each([
    'flags < _$p',
    'b < true',
    'b < _$p',
    'note == 5',
    'made > "soon"',
    'nothing == "a"',
    'nothing == _$p',
    'nothing CONTAINS _$p',
    '5 CONTAINS true',
    'line.nothing CONTAINS "a"',
    'n == _$',
    'tags CONTAINS (x == 1)',
    'line == "a"',
    'note == id',
    '5 == 5',
    '$class == "x"',
    'note.what == "a"',
  ])('a network must not have a query WHERE %s', (condition) => {
    expect(findingsOf(where(condition)).errors).toHaveLength(1)
  })

  it('accepts conditions nested up to 32 levels deep, side by side in any number', () => {
    const nested = (levels: number) => `${'('.repeat(levels)}n == 1${')'.repeat(levels)}`
    const errorsOf = (condition: string) =>
      findingsOf(`SELECT org.test.Thing WHERE ${condition}`).errors
    expect(errorsOf(nested(32))).toEqual([])
    expect(errorsOf(Array(40).fill('(n == 1)').join(' OR '))).toEqual([])
    expect(errorsOf(nested(33))).toEqual(['conditions are nested more than 32 levels deep'])
  })

  it.each([
    ['ORDER BY [n DESC, id ASC] LIMIT 0 SKIP 5', true],
    ['ORDER BY n LIMIT _$count SKIP _$from', true],
    ['ORDER BY [n DESC ASC]', false],
    ['LIMIT -1', false],
    ['SKIP -1', false],
    ['LIMIT 1.5', false],
    ['LIMIT "1"', false],
    ['LIMIT n', false],
  ])('a query with %s is accepted: %s', (rest, isAccepted) => {
    const { errors } = findingsOf(`SELECT org.test.Thing ${rest}`)
    expect([errors, errors.length === 0]).toEqual([isAccepted ? [] : errors, isAccepted])
  })

  it('accepts a query on an abstract type, but not on events, concepts, enums and unknown types', () => {
    expect(findingsOf('SELECT org.test.Base').errors).toEqual([])
    for (const type of ['E', 'Line', 'Colour', 'Nope']) {
      expect([type, findingsOf(`SELECT org.test.${type}`).errors.length]).toEqual([type, 1])
    }
  })
})

const CONDITIONS = {
  equalTag: 'tags == _$p',
  literalTag: 'tags == "b"',
  otherTag: 'tags != _$p',
  mirroredTag: '_$p == tags',
  smallNumber: 'ns <= _$p',
  mirroredNumber: '_$p < ns',
  lateDay: 'days >= _$p',
  colours: 'colours == _$p',
  flags: 'flags == _$p',
  owners: 'owners == _$p',
  nested: 'lines.sizes == _$p',
  element: 'lines CONTAINS (sizes >= _$p AND what == "x")',
  swapped: '_$p CONTAINS tags',
  swappedList: '["a", _$p] CONTAINS tags',
  swappedElement: '(what == _$p) CONTAINS lines',
  enumOrder: 'colour < _$p',
  relationshipOrder: 'owner <= _$p',
  behind: 'owner.name == _$p',
  concept: 'line == _$p',
  noArray: 'note CONTAINS _$p',
  twoTypes: 'note == _$p OR n == _$p',
  textOrOwner: 'owner == _$p OR note == _$p',
  hex: 'n == 0x07',
  year: 'made >= "2020"',
  contains: 'tags CONTAINS _$p',
}
const RESULTS = [
  ['equalTag?p=a', '1'],
  ['equalTag?p=b', '1,2'],
  ['literalTag', '1,2'],
  ['mirroredTag?p=a', '1'],
  ['otherTag?p=a', '2,3'],
  ['smallNumber?p=1', '1'],
  ['smallNumber?p=7', '1,2'],
  ['mirroredNumber?p=7', '1'],
  ['lateDay?p=2023-06-01', '1'],
  ['lateDay?p=2025-06-01', ''],
  ['colours?p=BLUE', '1'],
  ['flags?p=true', '1'],
  ['owners?p=bob', '1'],
  ['nested?p=9', '1'],
  ['element?p=5', '1'],
  ['element?p=6', ''],
  ['swapped?p=b', '1,2'],
  ['swappedList?p=b', '1'],
  ['swappedElement?p=y', '1'],
  ['enumOrder?p=C', '1'],
  ['relationshipOrder?p=ann', '1'],
  ['relationshipOrder?p=bob', '1,2'],
  ['behind?p=ann', ''],
  ['concept?p=x', ''],
  ['noArray?p=z', ''],
  ['twoTypes?p=7', '2,3'],
  ['textOrOwner?p=resource:org.test.Person%23bob', '2,3'],
  ['hex', '3'],
  ['year', '2'],
  ['abstract', ''],
] as const

const QUERIES = `${Object.entries(CONDITIONS)
  .map(([name, condition]) => `query ${name} { description: "d" statement: ${where(condition)} }`)
  .join('\n')}
query abstract { description: "d" statement: SELECT org.test.Base }`
const LIB = `
/** @param {org.test.Find} tx the transaction
 *  @transaction */
async function find(tx) {
  const found = await (0, eval)('(' + tx.code + ')')()
  return found.map((each) => each.getIdentifier())
}`

describe('a query', () => {
  const started = async () => {
    const files = { 'queries.qry': QUERIES, 'lib/find.js': LIB }
    const node = await gateway({ deploy: [networkOf(MODEL, files)] })
    const things = [
      {
        id: '1',
        tags: ['a', 'b'],
        ns: [1, 9],
        days: ['2020-01-01T00:00:00Z', '2024-01-01T00:00:00Z'],
        colours: ['RED', 'BLUE'],
        flags: [true, false],
        owner: 'ann',
        owners: ['ann', 'bob'],
        lines: [
          { what: 'x', amount: 1, sizes: [1, 5] },
          { what: 'y', amount: 1, sizes: [9] },
        ],
        line: { what: 'x', amount: 1 },
        note: 'z',
        colour: 'BLUE',
        made: '2019-12-31T23:59:59Z',
      },
      {
        id: '2',
        tags: ['b'],
        ns: [7],
        flags: [false],
        owner: 'bob',
        note: '7',
        made: '2020-01-01',
      },
      { id: '3', tags: [], n: 7, note: 'resource:org.test.Person#bob' },
    ]
    expect((await node.send('POST', '/api/Thing', things)).status).toBe(200)
    return node
  }
  const ids = (json: { id: string }[]) => json.map(({ id }) => id).join()

  it('finds resources in which the value, or any element of an array, matches', async () => {
    const node = await started()
    for (const [path, found] of RESULTS) {
      const { status, json } = await node.send('GET', `/api/queries/${path}`)
      expect([path, status, ids(json)]).toEqual([path, 200, found])
    }
  })

  it('accepts a list of values for CONTAINS from a processor, and finds arrays that contain all of them', async () => {
    const node = await started()
    const find = async (code: string) => {
      const { status, json } = await node.send('POST', '/api/Find', { code })
      return status === 200 ? json.join() : [status, json.error.message]
    }
    expect(await find(`() => query('contains', { p: ['a', 'b'] })`)).toBe('1')
    expect(await find(`() => query('contains', { p: ['b'] })`)).toBe('1,2')
    expect(await find(`() => query('contains', { p: 'b' })`)).toBe('1,2')
    expect(await find(`() => query('equalTag', { p: 'b' })`)).toBe('1,2')
    expect(await find(`() => query('equalTag', { p: ['b'] })`)).toBe('1,2')
    expect(await find(`() => query(buildQuery('${where('ns <= _$p')}'), { p: 1 })`)).toBe('1')
    expect(await find(`() => query('twoTypes', { p: ['7'] })`)).toEqual([
      422,
      'the query needs the parameter p, a Integer',
    ])
    const many = `() => query('contains', { p: Array(1001).fill('a') })`
    expect(await find(many)).toEqual([422, 'the query needs the parameter p, a String'])
  })
})

// Features of the modelling language, and the errors of invalid networks.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { JsonObject } from '../../src/base/json.ts'
import { checkNetwork, formatFinding, type NetworkDefinition } from '../../src/network/index.ts'
import {
  formatRelationship,
  parseRelationship,
  parseTarget,
} from '../../src/network/model/model.ts'
import { checkInstance } from '../../src/network/model/validation.ts'
import { requireResources, requireType } from '../../src/network/resources/instances.ts'
import { networkOf } from '../support/gateway.ts'

const ALL =
  'rule All { description: "" participant: "ANY" operation: ALL resource: "**" action: ALLOW }'

/** Returns the errors and warnings of a network with these files, as text. */
function findingsIn(files: Readonly<Record<string, string>>): string[] {
  const all = { 'package.json': '{"name":"n","version":"1.0.0"}', 'permissions.acl': ALL, ...files }
  const buffers = Object.entries(all).map(([path, text]) => [path, Buffer.from(text)] as const)
  return checkNetwork({ packed: null, files: new Map(buffers) }).findings.map(formatFinding)
}

/** Validates `value` as an instance of `type`. Returns a pointer and a code for each problem, or no elements. */
function problemsOf({ model, ...strictness }: NetworkDefinition, type: string, value: JsonObject) {
  const declared = model.type(type)
  if (declared === null) throw new Error(`unknown type ${type}`)
  const { problems } = checkInstance(model, declared, value, strictness)
  return (problems ?? []).map(({ path, code }) => `${path} ${code}`)
}

function kept({ model, ...strictness }: NetworkDefinition, type: string, value: JsonObject) {
  const declared = model.type(type)
  if (declared === null) throw new Error(`unknown type ${type}`)
  return checkInstance(model, declared, value, strictness).resource
}

describe('types', () => {
  const network = networkOf(`namespace org.test
    enum Colour { o RED o GREEN }
    concept Size { o Integer width o Integer height optional }
    concept Box extends Size { o Integer depth }
    abstract concept Shape { o Colour colour }
    concept Circle extends Shape { o Double radius }
    abstract asset Thing identified by id { o String id }
    asset Crate extends Thing {
      o Size size
      o Shape[] shapes
      o String[] labels optional
      o Colour colour default="GREEN"
      o Boolean fragile default=true
      o Integer count default=3
      o DateTime made optional
      --> Crate[] inside optional
      --> Person keeper optional
    }
    participant Person identified by name { o String name }`)
  const crate = { id: '1', size: { width: 1 }, shapes: [] }

  it('types cannot have instances if they are abstract, and their subtypes inherit their properties', () => {
    expect(problemsOf(network, 'org.test.Crate', crate)).toEqual([])
    expect(problemsOf(network, 'org.test.Crate', { ...crate, $class: 'org.test.Thing' })).toEqual([
      '/$class WRONG_CLASS',
    ])
    const shapes = [{ colour: 'RED' }, { $class: 'org.test.Shape', colour: 'RED' }]
    expect(problemsOf(network, 'org.test.Crate', { ...crate, shapes })).toEqual([
      '/shapes/0/$class MISSING',
      '/shapes/1/$class ABSTRACT_CLASS',
    ])
  })

  it('types accept values of a subtype with its $class where a concept is declared, and reject values of other concepts', () => {
    const size = { $class: 'org.test.Box', width: 1, depth: 2 }
    expect(kept(network, 'org.test.Crate', { ...crate, size })).toMatchObject({ size })
    expect(
      problemsOf(network, 'org.test.Crate', { ...crate, size: { width: 1, depth: 2 } }),
    ).toEqual(['/size/depth UNKNOWN_PROPERTY'])
    const circle = { $class: 'org.test.Circle', colour: 'RED', radius: 0.5 }
    expect(problemsOf(network, 'org.test.Crate', { ...crate, shapes: [circle] })).toEqual([])
    const other = { $class: 'org.test.Size', width: 1 }
    expect(problemsOf(network, 'org.test.Crate', { ...crate, shapes: [other] })).toEqual([
      '/shapes/0/$class WRONG_CLASS',
    ])
  })

  it('types give missing members their defaults, and accept optional members that are missing or null', () => {
    expect(kept(network, 'org.test.Crate', { ...crate, labels: null, keeper: null })).toEqual({
      $class: 'org.test.Crate',
      id: '1',
      size: { $class: 'org.test.Size', width: 1 },
      shapes: [],
      colour: 'GREEN',
      fragile: true,
      count: 3,
    })
  })

  it('types are checked in array elements, enums, dates and relationships, and all errors are reported', () => {
    const wrong = {
      ...crate,
      labels: ['a', 1, null],
      colour: 'BLUE',
      made: '2026-02-30T00:00:00Z',
      inside: ['2', 'resource:org.test.Person#x', 'org.test.Nothing#1', 7],
      keeper: 'resource:org.test.Person#',
      surprise: 1,
      shapes: {},
    }
    expect(problemsOf(network, 'org.test.Crate', wrong)).toEqual([
      '/shapes WRONG_TYPE',
      '/labels/1 WRONG_TYPE',
      '/labels/2 WRONG_TYPE',
      '/colour NOT_IN_ENUM',
      '/made NOT_A_DATE',
      '/inside/1 WRONG_RELATIONSHIP',
      '/inside/2 WRONG_RELATIONSHIP',
      '/inside/3 WRONG_RELATIONSHIP',
      '/keeper WRONG_RELATIONSHIP',
      '/surprise UNKNOWN_PROPERTY',
    ])
  })

  it('types have relationships and dates that are stored in one normal form', () => {
    const given = {
      ...crate,
      made: '2026-11-20T21:00:00+09:00',
      inside: ['2', 'org.test.Crate#3', 'resource:org.test.Crate#a%20b', 'a b'],
    }
    expect(kept(network, 'org.test.Crate', given)).toMatchObject({
      made: '2026-11-20T12:00:00.000Z',
      inside: [
        'resource:org.test.Crate#2',
        'resource:org.test.Crate#3',
        'resource:org.test.Crate#a%20b',
        'resource:org.test.Crate#a%20b',
      ],
    })
  })
})

describe('values', () => {
  const network = networkOf(`namespace org.test
    concept Values {
      o String code regex=/^[a-z]{2}$/i optional
      o String unicode regex=/^\\p{L}+$/u optional
      o Integer low range=[0,] optional
      o Long high range=[,10] optional
      o Double between range=[-1.5,1.5] optional
      o Long long optional
      o Double double optional
    }`)
  const problems = (value: JsonObject) => problemsOf(network, 'org.test.Values', value)

  it('values can be restricted by regular expressions with flags', () => {
    expect(problems({ code: 'Ab', unicode: '台帳' })).toEqual([])
    expect(problems({ code: 'abc', unicode: '1' })).toEqual([
      '/code PATTERN_MISMATCH',
      '/unicode PATTERN_MISMATCH',
    ])
  })

  it('values can be restricted by ranges with one or two inclusive bounds', () => {
    expect(problems({ low: 0, high: 10, between: -1.5 })).toEqual([])
    expect(problems({ low: -1, high: 11, between: 1.6 })).toEqual([
      '/low OUT_OF_RANGE',
      '/high OUT_OF_RANGE',
      '/between OUT_OF_RANGE',
    ])
  })

  it('values can be integers up to 2^53-1, and only networks made for Composer accept fractions for integers', () => {
    expect(problems({ long: 2 ** 53 - 1 })).toEqual([])
    expect(problems({ long: 2 ** 53 })).toEqual(['/long NUMBER_TOO_LARGE'])
    expect(problems({ low: 1.5, long: 1e300 })).toEqual([
      '/low NOT_AN_INTEGER',
      '/long NUMBER_TOO_LARGE',
    ])
    const lenient = networkOf(
      'namespace org.test concept Values { o Long long }',
      {},
      {
        engines: { composer: '^0.20.0' },
      },
    )
    expect(problemsOf(lenient, 'org.test.Values', { long: 1.5 })).toEqual([])
  })
})

describe('files', () => {
  it('files can import types by name and with a star from several namespaces, and types of their own namespace take precedence', () => {
    const found = findingsIn({
      'models/a.cto': 'namespace org.a\nconcept One {}\nconcept Two {}\nconcept Mine {}',
      'models/deep/b.cto': `namespace org.b
        import org.a.One
        import org.a.* from https://example.org/a.cto
        concept Mine { o One one o Two two o Mine[] mine optional o org.a.Mine other }`,
    })
    expect(found).toEqual([])
  })

  it('files can import types from packages that the network depends on', () => {
    const found = findingsIn({
      'models/b.cto': 'namespace org.b import org.a.One concept Two { o One one }',
      'node_modules/shared/models/a.cto': 'namespace org.a concept One {}',
    })
    expect(found).toEqual([])
  })

  it('files can contain decorators with arguments', () => {
    const { model } = networkOf(`namespace org.test
      @deprecated @form("wide", 3, true, Hint) concept Hint { @label("Name") o String name }
      @returns(Hint[]) @commit(false) transaction Ask {}
      @returns(1) @commit("as one likes") concept Other {}`)
    expect(model.type('org.test.Hint')?.decorators.map(({ name }) => name)).toEqual([
      'deprecated',
      'form',
    ])
    expect(model.type('org.test.Hint')?.decorators[1]?.arguments).toEqual(['wide', 3, true, 'Hint'])
    expect(model.type('org.test.Ask')?.decorators[0]?.arguments).toEqual(['Hint[]'])
  })

  it('files can declare properties with the names of Object members', () => {
    const odd = networkOf(`namespace org.test
      concept Odd { o String toString optional o String constructor }`)
    expect(problemsOf(odd, 'org.test.Odd', { constructor: 'x' })).toEqual([])
    expect(problemsOf(odd, 'org.test.Odd', {})).toEqual(['/constructor MISSING'])
  })

  it('files can use the system types, which every network contains', () => {
    const { model } = networkOf('namespace org.test asset A identified by a { o String a }')
    const names = ['Asset', 'Participant', 'Transaction', 'Event', 'NetworkAdmin', 'Identity']
    for (const name of [...names, 'Network', 'HistorianRecord', 'AddAsset']) {
      expect(model.type(`org.hyperledger.composer.system.${name}`)).not.toBeNull()
    }
  })
})

describe('relationships', () => {
  const { model } = networkOf(`namespace org.test
  asset Thing identified by id { o String id }
  asset Box extends Thing {}
  participant Person identified by id { o String id }`)

  it.each([
    ['resource:org.test.Thing#a', { type: 'org.test.Thing', id: 'a' }],
    ['org.test.Box#a', { type: 'org.test.Box', id: 'a' }],
    ['a', { type: 'org.test.Thing', id: 'a' }],
    ['org.test.Thing#a%23b#c', { type: 'org.test.Thing', id: 'a#b#c' }],
    ['org.test.Thing#100%', { type: 'org.test.Thing', id: '100%' }],
    ['', 'the id is empty'],
    ['org.test.Thing#', 'the id is empty'],
    ['resource:a', 'a relationship must have the form resource:<type>#<id>'],
    ['resource:', 'a relationship must have the form resource:<type>#<id>'],
    ['org.test.None#a', 'there is no type org.test.None'],
    ['org.test.Person#a', 'the type must be org.test.Thing, not org.test.Person'],
  ])('the text %j, parsed as a relationship to a Thing, gives %j', (text, target) => {
    const declared = model.type('org.test.Thing')
    if (declared === null) throw new Error('unknown type')
    expect(parseRelationship(text, declared, model)).toEqual(target)
  })

  it.each(['a', 'a#b', 'a b', '100%', 'ü/?', '%23'])(
    'relationships contain the id %j in escaped form',
    (id) => {
      const text = formatRelationship({ type: 'org.test.Thing', id })
      expect(text.split('#')).toHaveLength(2)
      expect(parseTarget(text)).toEqual({ type: 'org.test.Thing', id })
    },
  )

  it('relationships are stored only in the form resource:<type>#<id>', () => {
    expect(['org.test.Thing#a', 'resource:a', ''].map(parseTarget)).toEqual([null, null, null])
  })
})

// Each line that ends with a number has exactly one error.
const WITH_ERRORS = `namespace org.test
import org.missing.Type // 1
enum Colour { o RED
  o RED } // 2
asset NoId { // 3
  o String a }
asset A identified by nope { // 4
  o String a }
asset B identified by b { o String b
  o Missing m // 5
  --> Colour c // 6
  --> String s // 7
  o String b // 8
  o Integer n range=[5,1] // 9
  o String r regex=/(/ // 10
  o Integer d default="x" // 11
  o Boolean q range=[0,1] // 12
}
asset C extends Nothing { // 13
  o String x }
participant D extends B { } // 14
asset E identified by b extends B { // 15
  o String e }
concept F extends G { } // 16
concept G extends F { }
concept B { } // 17
concept H identified by h { // 18
  o String h }
transaction I { o String transactionId } // 19
asset J identified by j {
  o Integer j } // 20 is reported in the previous line
transaction K identified by k { // 21
  o String k }
event L identified by l { // 22
  o String l }
`

describe('errors', () => {
  it('errors are reported for all 22 faults of a model, with locations', () => {
    const found = findingsIn({ 'models/m.cto': WITH_ERRORS })
    const lines = WITH_ERRORS.split('\n')
    const planted = [...lines.entries()].flatMap(([at, line]) => {
      const number = /\/\/ (\d+)/.exec(line)?.[1]
      return number === undefined ? [] : [number === '20' ? at : at + 1]
    })
    expect(planted).toHaveLength(22)
    const places = found.map((text) => Number(/^models\/m\.cto:(\d+):\d+: error: /.exec(text)?.[1]))
    expect(found, found.join('\n')).toHaveLength(22)
    expect(places).toEqual(planted.sort((a, b) => a - b))
  })

  it('errors are reported for processors whose parameter is missing, unknown or not a transaction', () => {
    const script = `/** @transaction */ const a = 1
/** @transaction */ function b(tx) {}
/**
 * @param {org.test.None} tx
 * @transaction
 */
function c(tx) {}
/** @param {org.test.Thing} tx
 * @transaction */
function d(tx) {}
/** @param {org.test.Run} tx
 * @transaction */
function e(tx) {}
/** No more than a function. */
function f() {}`
    const model = `namespace org.test asset Thing identified by id { o String id } transaction Run {}`
    const found = findingsIn({ 'models/m.cto': model, 'lib/s.js': script })
    expect(found.map((text) => text.replace(/^.*: error: /, ''))).toEqual([
      'lib/s.js:1:1: warning: no top-level function follows this @transaction, so nothing runs for it',
      'the processor b needs exactly one @param {<transaction type>} <name> in its comment',
      'the processor c has the unknown transaction type org.test.None',
      'the processor d has the unknown transaction type org.test.Thing',
    ])
  })

  it('errors are reported for all files, even if one of them has a syntax error', () => {
    const found = findingsIn({
      'package.json': '{"name":"Bad Name","version":"one"}',
      'models/m.cto':
        'namespace org.test\nasset A identified by {\n}\nconcept B {\n  o String\n  x y z\n  o String ok\n}\nconcept C { o Strin s }',
      'permissions.acl':
        'rule R {\n  participant: "org.test.Nobody"\n  operation: READ, WRITE\n}\nrule S {\n  participant: ANY\n  operation: ALL\n  resource: "org.nowhere.*"\n  condition: (a ==)\n  action: ALLOW\n}',
      'queries.qry':
        'query Q { statement: SELECT org.test.B WHERE (a == _$b) }\nquery R { statement: SELECT }',
      'lib/a.js': 'function f( {\n}',
      'lib/b.js':
        '/**\n * @param {org.test.None} tx\n * @transaction\n */\nasync function g(tx) {}',
    })
    expect(found).toEqual([
      expect.stringMatching(/^lib\/a\.js:2:1: error: /),
      'lib/b.js:2:12: error: the processor g has the unknown transaction type org.test.None',
      'models/m.cto:2:23: error: expected the identifying field, found “{”',
      'models/m.cto:6:5: error: expected a property: “o” or “-->”, found “y”',
      'models/m.cto:9:15: error: there is no type Strin',
      expect.stringMatching(/^package\.json: error: “name” must be/),
      expect.stringMatching(/^package\.json: error: “version” must be/),
      'permissions.acl:3:20: error: expected CREATE, READ, UPDATE, DELETE or ALL, found “WRITE”',
      'permissions.acl:8:13: error: there is no namespace org.nowhere',
      expect.stringMatching(
        /^permissions\.acl:9:\d+: error: the condition is not a JavaScript expression/,
      ),
      'queries.qry:1:29: error: org.test.B is not an asset, participant or transaction type',
      'queries.qry:2:29: error: expected the type to select, found “}”',
    ])
  })

  it('errors include a warning that everything is allowed if permissions.acl is missing', () => {
    const { findings, definition } = checkNetwork({
      packed: null,
      files: new Map([
        ['package.json', Buffer.from('{"name":"n","version":"1.0.0"}')],
        ['models/m.cto', Buffer.from('namespace a')],
      ]),
    })
    expect(findings.map(formatFinding)).toEqual([
      'permissions.acl: warning: the file is missing, so everyone may do everything',
    ])
    expect(definition?.rules).toBeNull()
  })
})

it('the regular expressions of a model may take two seconds for all resources of a request', () => {
  const definition = networkOf(`namespace org.test
    participant Person identified by name { o String name regex=/^[a-z]+$/ }`)
  const type = requireType(definition.model, 'org.test.Person')
  const people = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ name: 'abcd'[n] ?? '' }))
  let nowMs = 0
  // Each match takes one second.
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 1_000
    return nowMs
  })
  onTestFinished(() => clock.mockRestore())
  expect(requireResources(people(3), type, definition)).toHaveLength(3)
  expect(() => requireResources(people(4), type, definition)).toThrow('takes too long to match')
})

// Filters over HTTP return the same as a simple evaluation. The pages of a list together contain the whole list.
// Lists omit resources that the caller may not read.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GatewayNode, networkOf, startGateway } from '../support/gateway.ts'
import { roundsOf } from '../support/rounds.ts'

const MODEL = `namespace org.test
enum Colour { o RED o GREEN o BLUE }
concept Size { o Integer width o Integer height optional }
asset Thing identified by id {
  o String id
  o Double weight optional
  o Colour colour
  o Boolean fragile
  o DateTime made
  o Size size optional
  o String[] labels
  --> Person keeper
}
participant Person identified by name { o String name }`
const RULES = `rule Own { participant: "org.test.Person" operation: READ resource: "org.test.Thing#t3" action: DENY }
rule Other { participant: "org.test.Person#ann" operation: READ resource: "org.test.Thing#t12" action: DENY }
rule Read { participant: "org.test.Person" operation: READ resource: "org.test.Thing" action: ALLOW }
rule Admin { participant: "org.hyperledger.composer.system.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }
rule System { participant: "ANY" operation: ALL resource: "org.hyperledger.composer.system.**" action: ALLOW }`
const COUNT = 60

interface Thing {
  readonly id: string
  readonly weight?: number
  readonly colour: string
  readonly fragile: boolean
  readonly made: string
  readonly size?: { readonly width: number; readonly height?: number }
  readonly labels: readonly string[]
  readonly keeper: string
}

const things: Thing[] = Array.from({ length: COUNT }, (_, n) => ({
  id: `t${n}`,
  ...(n % 7 === 0 ? {} : { weight: (n % 10) / 2 }),
  colour: ['RED', 'GREEN', 'BLUE'][n % 3] ?? '',
  fragile: n % 2 === 0,
  made: new Date(Date.UTC(2020, n % 12, 1 + (n % 5))).toISOString(),
  ...(n % 5 === 0 ? {} : { size: { width: n % 4, ...(n % 3 === 0 ? {} : { height: n % 6 }) } }),
  labels: Array.from({ length: n % 3 }, (_, k) => `l${(n + k) % 4}`),
  keeper: `resource:org.test.Person#${n % 2 === 0 ? 'ann' : 'bob'}`,
}))

let node: GatewayNode
const secrets = new Map<string, string>()
beforeAll(async () => {
  node = await startGateway({ deploy: [networkOf(MODEL, { 'permissions.acl': RULES })] })
  expect((await node.send('POST', '/api/Thing', things)).status).toBe(200)
  for (const name of ['ann', 'bob']) {
    await node.send('POST', '/api/Person', { name })
    const participant = `org.test.Person#${name}`
    const issued = await node.send('POST', '/api/system/identities/issue', {
      participant,
      userID: name,
    })
    secrets.set(name, issued.json.userSecret)
  }
})
afterAll(() => node.close())

const byId = things.toSorted((one, other) => (one.id < other.id ? -1 : 1))

async function found(filter: object, headers = {}) {
  const path = `/api/Thing?filter=${encodeURIComponent(JSON.stringify(filter))}`
  const { status, json, headers: sent } = await node.send('GET', path, undefined, headers)
  expect([status, JSON.stringify(json).slice(0, 300)]).toEqual([200, expect.any(String)])
  const ids: string[] = json.map(({ id }: Thing) => id)
  return { ids, total: Number(sent.get('x-total-count')) }
}

/** Returns the values at a path, with arrays flattened, or `[null]` if there is no value. */
function valuesAt(thing: object, path: string): unknown[] {
  let values: unknown[] = [thing]
  for (const step of path.split('.')) {
    values = values.flatMap((value) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, step)
        ? [Reflect.get(value, step)]
        : [],
    )
  }
  return values.length === 0 ? [null] : values.flat()
}

type Operator = 'eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte' | 'between' | 'inq' | 'nin' | 'like'

function holds(values: unknown[], operator: Operator, given: unknown): boolean {
  const some = (test: (value: never) => boolean) =>
    values.some(
      (value) =>
        value !== null && typeof value === typeof [given].flat()[0] && test(value as never),
    )
  const list = [given].flat()
  switch (operator) {
    case 'eq':
      return values.includes(given)
    case 'neq':
      return !values.includes(given)
    case 'gt':
      return some((value) => value > (given as never))
    case 'gte':
      return some((value) => value >= (given as never))
    case 'lt':
      return some((value) => value < (given as never))
    case 'lte':
      return some((value) => value <= (given as never))
    case 'between':
      return some((value) => value >= (list[0] as never) && value <= (list[1] as never))
    case 'inq':
      return values.some((value) => list.includes(value))
    case 'nin':
      return !values.some((value) => list.includes(value))
    case 'like':
      return values.some((value) => String(value).includes(String(given).replaceAll('%', '')))
  }
}

const FIELDS: Record<string, fc.Arbitrary<string | number | boolean>> = {
  id: fc.constantFrom('t0', 't1', 't25', 't9', 'zz'),
  weight: fc.constantFrom(-1, 0, 0.5, 2, 4.5, 100),
  colour: fc.constantFrom('RED', 'GREEN', 'BLUE'),
  fragile: fc.boolean(),
  made: fc.constantFrom(...things.slice(0, 12).map(({ made }) => made)),
  'size.width': fc.integer({ min: -1, max: 5 }),
  'size.height': fc.integer({ min: 0, max: 6 }),
  labels: fc.constantFrom('l0', 'l1', 'l3', 'none'),
  keeper: fc.constantFrom('resource:org.test.Person#ann', 'resource:org.test.Person#bob'),
}

interface Test {
  readonly path: string
  readonly operator: Operator
  readonly value: unknown
}

const anyTest: fc.Arbitrary<Test> = fc.constantFrom(...Object.keys(FIELDS)).chain((path) => {
  const value = FIELDS[path] ?? fc.constant('')
  const unordered: Operator[] = ['eq', 'neq', 'inq', 'nin']
  const ordered: Operator[] = path === 'fragile' ? [] : ['gt', 'gte', 'lt', 'lte', 'between']
  const patterns: Operator[] = path === 'id' || path === 'labels' ? ['like'] : []
  return fc
    .constantFrom(...unordered, ...ordered, ...patterns)
    .chain((operator): fc.Arbitrary<Test> => {
      if (operator === 'between') {
        return fc.tuple(value, value).map(([one, other]) => {
          const pair = one < other ? [one, other] : [other, one]
          return { path, operator, value: pair }
        })
      }
      if (operator === 'inq' || operator === 'nin') {
        return fc
          .array(value, { minLength: 1, maxLength: 3 })
          .map((list) => ({ path, operator, value: list }))
      }
      if (operator === 'like') return value.map((text) => ({ path, operator, value: `%${text}%` }))
      return value.map((one) => ({ path, operator, value: one }))
    })
})

type Tree = Test | { readonly join: 'and' | 'or'; readonly of: readonly Tree[] }
const anyTree: fc.Arbitrary<Tree> = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 2 },
    anyTest,
    fc.record({
      join: fc.constantFrom<'and' | 'or'>('and', 'or'),
      of: fc.array(tie('tree'), { minLength: 1, maxLength: 3 }),
    }),
  ),
})).tree

function whereOf(tree: Tree): object {
  if ('join' in tree) return { [tree.join]: tree.of.map(whereOf) }
  return { [tree.path]: { [tree.operator]: tree.value } }
}

function fits(tree: Tree, thing: object): boolean {
  if (!('join' in tree)) return holds(valuesAt(thing, tree.path), tree.operator, tree.value)
  return tree.join === 'and'
    ? tree.of.every((each) => fits(each, thing))
    : tree.of.some((each) => fits(each, thing))
}

it('returns for any filter the same result as a simple evaluation, ordered by id, with the total', async () => {
  await fc.assert(
    fc.asyncProperty(anyTree, fc.option(fc.nat(20)), fc.nat(20), async (tree, limit, offset) => {
      const expected = byId.filter((thing) => fits(tree, thing)).map(({ id }) => id)
      const range = { offset, ...(limit === null || limit === 0 ? {} : { limit }) }
      const { ids, total } = await found({ where: whereOf(tree), ...range })
      const end = range.limit === undefined ? undefined : offset + range.limit
      expect(ids).toEqual(expected.slice(offset, end))
      expect(total).toBe(expected.length)
    }),
    { numRuns: roundsOf(200) },
  )
})

it('returns pages that together contain the whole list, in any sort order', async () => {
  for (const order of [
    [],
    ['weight DESC', 'id ASC'],
    ['made ASC', 'id DESC'],
    ['size.width', 'id'],
  ]) {
    const whole = await found({ order })
    expect(whole.ids.toSorted()).toEqual(byId.map(({ id }) => id))
    for (const limit of [1, 7, 25, 60]) {
      const pages: string[] = []
      for (let offset = 0; offset < COUNT; offset += limit) {
        pages.push(...(await found({ order, limit, offset })).ids)
      }
      expect(pages).toEqual(whole.ids)
    }
  }
})

it('includes only readable resources in lists, pages and totals', async () => {
  const hidden: Record<string, string[]> = { ann: ['t3', 't12'], bob: ['t3'] }
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('ann', 'bob'),
      fc.option(anyTree),
      fc.integer({ min: 1, max: 30 }),
      fc.nat(30),
      async (name, tree, limit, offset) => {
        const headers = { authorization: `Bearer ${secrets.get(name)}` }
        const readable = byId
          .filter((thing) => tree === null || fits(tree, thing))
          .map(({ id }) => id)
          .filter((id) => !hidden[name]?.includes(id))
        const where = tree === null ? {} : { where: whereOf(tree) }
        const { ids, total } = await found({ ...where, limit, offset }, headers)
        expect(ids).toEqual(readable.slice(offset, offset + limit))
        expect(total).toBe(readable.length)
      },
    ),
    { numRuns: roundsOf(100) },
  )
  for (const id of ['t3', 't12', 't4']) {
    for (const name of ['ann', 'bob']) {
      const headers = { authorization: `Bearer ${secrets.get(name)}` }
      const { status } = await node.send('GET', `/api/Thing/${id}`, undefined, headers)
      expect(status).toBe(hidden[name]?.includes(id) === true ? 404 : 200)
    }
  }
})

it('returns the same results with and without an index', async () => {
  for (const path of ['resource.weight', 'resource.colour', 'resource.size.width']) {
    await node.ledger.write.changeIndex('add', { db: 'test-network', path })
  }
  const isReady = async () => (await node.ledger.read.indexes()).every((index) => index.isReady)
  // The node builds the index between blocks, so the loop writes until the index is ready.
  while (!(await isReady())) await node.send('PATCH', '/api/Thing/t0', {})
  await fc.assert(
    fc.asyncProperty(anyTree, async (tree) => {
      const expected = byId.filter((thing) => fits(tree, thing)).map(({ id }) => id)
      expect((await found({ where: whereOf(tree) })).ids).toEqual(expected)
    }),
    { numRuns: roundsOf(100) },
  )
})

it('combines operators on one field with AND, and rejects unknown fields, operators and wrong types with a pointer', async () => {
  expect((await found({ where: { weight: { gt: 1, lt: 2 } } })).ids).toEqual(
    byId.filter(({ weight = 0 }) => weight > 1 && weight < 2).map(({ id }) => id),
  )
  for (const [where, pointer] of [
    [{ nope: 1 }, '/where/nope'],
    [{ weight: { about: 1 } }, '/where/weight/about'],
    [{ weight: { lt: 'x' } }, '/where/weight/lt'],
    [{ made: { gt: 'soon' } }, '/where/made/gt'],
    [{ colour: 'PINK' }, '/where/colour'],
    [{ 'keeper.name': 'ann' }, '/where/keeper.name'],
  ] as const) {
    const path = `/api/Thing?filter=${encodeURIComponent(JSON.stringify({ where }))}`
    const { status, json } = await node.send('GET', path)
    expect([status, json.error.details[0].path]).toEqual([400, pointer])
  }
})

it('supports fields and include=resolve, on lists and single resources', async () => {
  const path = (filter: object) => `filter=${encodeURIComponent(JSON.stringify(filter))}`
  const shown = await node.send('GET', `/api/Thing?${path({ fields: ['id', 'keeper'], limit: 1 })}`)
  expect(shown.json).toEqual([{ id: 't0', keeper: 'resource:org.test.Person#ann' }])
  const ann = { $class: 'org.test.Person', name: 'ann' }
  const filter = { fields: ['id', 'keeper'], limit: 1, include: 'resolve' }
  expect((await node.send('GET', `/api/Thing?${path(filter)}`)).json).toEqual([
    { id: 't0', keeper: ann },
  ])
  const one = await node.send('GET', `/api/Thing/t0?${path({ include: 'resolve' })}`)
  expect(one.json).toMatchObject({ id: 't0', keeper: ann })
  expect(
    (await node.send('GET', '/api/Thing?filter[include]=resolve&filter[limit]=1')).json[0].keeper,
  ).toEqual(ann)
})

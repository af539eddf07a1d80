import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import { packPosition, positionText } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { planBatch } from './plan.ts'
import { holds, type RequestConditions } from './request-conditions.ts'
import type { Operation, UnitOfWork } from './unit-of-work.ts'

const HEIGHT = 5
const SERVER_ID = 7

type Members = Record<string, unknown>
interface Held {
  readonly item: Members
  readonly revision: number
}
type Databases = Map<string, Map<string, Held>>

/** Returns the databases and items in the store before the batch. */
function stored(): Databases {
  const held = (id: string, revision: number): [string, Held] => [
    id,
    { item: { id, from: 'store' }, revision },
  ]
  return new Map([['a', new Map([held('x', 3), held('y', 4)])]])
}

function storeOf(databases: Databases): StoreReader {
  const store = {
    serverId: SERVER_ID,
    idempotencyRecord: async () => null,
    database: async (name: string) => (databases.has(name) ? { name, created: 0 } : null),
    existingIds: async (db: string, ids: readonly string[]) =>
      ids.filter((id) => databases.get(db)?.has(id)),
    item: async (db: string, id: string) => {
      const held = databases.get(db)?.get(id)
      if (held === undefined) return null
      return { id, created: 1, revision: held.revision, text: canonicalJson(held.item as never) }
    },
  }
  // `store` has only the members that planning uses.
  return store as unknown as StoreReader
}

/** Applies an operation to `databases`. Returns the recorded entry, or the error code. */
function applied(databases: Databases, operation: Operation, revision: number): Members | string {
  const { kind, db } = operation
  const entry = { db, method: kind === 'patch_item' ? 'update_item' : kind, serverid: SERVER_ID }
  const items = databases.get(db)
  if (kind === 'create_db') {
    if (items !== undefined) return 'DATABASE_EXISTS'
    databases.set(db, new Map())
    return entry
  }
  if (items === undefined) return 'DATABASE_NOT_FOUND'
  if (kind === 'delete_db') {
    databases.delete(db)
    return entry
  }
  if (!('id' in operation)) throw new Error('no such operation here')
  const { id } = operation
  const before = items.get(id)
  if (kind === 'create_item' ? before !== undefined : before === undefined) {
    return kind === 'create_item' ? 'ITEM_EXISTS' : 'ITEM_NOT_FOUND'
  }
  if (kind === 'delete_item') {
    items.delete(id)
    return { ...entry, id }
  }
  const sent: Members = 'text' in operation ? JSON.parse(operation.text) : {}
  const item = kind === 'patch_item' ? { ...before?.item, ...sent } : sent
  items.set(id, { item, revision })
  return { ...entry, item }
}

/** Returns the error of the first operation that violates `precondition`, or null. */
function unexpected(
  databases: Databases,
  unit: UnitOfWork,
  conditions: RequestConditions | undefined,
) {
  for (const operation of unit) {
    if (!conditions?.precondition || !('id' in operation)) continue
    const items = databases.get(operation.db)
    const held = items?.get(operation.id)
    if (items === undefined || (held === undefined && operation.kind !== 'create_item')) continue
    const tag = held === undefined ? null : positionText(held.revision)
    if (!holds(conditions.precondition, tag)) return 'PRECONDITION_FAILED'
  }
  return null
}

const db = fc.constantFrom('a', 'a', 'a', 'b')
const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('create_db' as const, 'delete_db' as const), db }),
  },
  {
    weight: 6,
    arbitrary: fc
      .record({
        kind: fc.constantFrom(
          'create_item',
          'update_item',
          'patch_item',
          'patch_item',
          'delete_item',
        ),
        db,
        id: fc.constantFrom('x', 'y', 'z'),
        n: fc.nat({ max: 9 }),
        member: fc.constantFrom('n', 'm'),
      })
      .map(({ kind, db: of, id, n, member }): Operation => {
        const text = canonicalJson(kind === 'patch_item' ? { [member]: n } : { id, [member]: n })
        if (kind === 'delete_item') return { kind, db: of, id }
        if (kind === 'create_item') return { kind, db: of, id, text, assigned: false }
        if (kind === 'patch_item') return { kind, db: of, id, text, currentBytes: 0 }
        return { kind: 'update_item', db: of, id, text }
      }),
  },
)
const tags = fc.constantFrom('*' as const, ['0.3'], ['0.4', '5.0'], ['5.1'])
const conditions = fc.option(
  fc.record({
    precondition: fc.record({
      match: fc.option(tags, { freq: 3 }),
      noneMatch: fc.option(tags, { freq: 3 }),
    }),
    idempotency: fc.constant(null),
  }),
  { nil: undefined, freq: 3 },
)
const batch = fc.array(
  fc.record({ unit: fc.array(operation, { minLength: 1, maxLength: 4 }), conditions }),
  { maxLength: 8 },
)

it('plans a batch with the same result as its units executed one after another; a rejected unit has no effect', async () => {
  const codes = new Set<string>()
  const property = fc.asyncProperty(batch, async (units) => {
    let databases = stored()
    const entries: Members[] = []
    const answers: unknown[] = []
    const outcomes: unknown[] = []
    for (const [at, { unit, conditions }] of units.entries()) {
      const copy: Databases = new Map([...databases].map(([of, items]) => [of, new Map(items)]))
      const madeEntries: Members[] = []
      let refusal = unexpected(copy, unit, conditions)
      for (const one of unit) {
        if (refusal !== null) break
        const position = packPosition(HEIGHT, entries.length + madeEntries.length)
        const result = applied(copy, one, position)
        if (typeof result === 'string') refusal = result
        else madeEntries.push(result)
      }
      outcomes.push(refusal ?? entries.length)
      codes.add(refusal ?? 'done')
      if (refusal !== null) continue
      databases = copy
      const idempotency = { key: `key ${at}`, fingerprint: 'f' }
      if (conditions)
        answers.push({ ...idempotency, index: entries.length, entries: madeEntries.length })
      entries.push(...madeEntries)
    }

    const allConditions = new Map<number, RequestConditions>()
    for (const [at, one] of units.entries()) {
      const idempotency = { key: `key ${at}`, fingerprint: 'f' }
      if (one.conditions !== undefined) allConditions.set(at, { ...one.conditions, idempotency })
    }
    const plan = await planBatch(
      storeOf(stored()),
      units.map(({ unit }) => unit),
      HEIGHT,
      { nowMs: 0, conditions: allConditions },
    )
    expect(
      plan.outcomes.map((one) => ('code' in one ? one.code : 'index' in one && one.index)),
    ).toEqual(outcomes)
    expect(plan.records).toEqual(answers)
    expect(plan.entries.map((text) => JSON.parse(text))).toEqual(entries)
    expect(plan.entries).toEqual(entries.map((entry) => canonicalJson(entry as never)))
    expect(plan.effects.map(({ kind, position }) => [kind, position])).toEqual(
      entries.map(({ method }, index) => [method, packPosition(HEIGHT, index)]),
    )
  })
  await fc.assert(property, { numRuns: roundsOf(1_000), seed: 1 })
  expect([...codes].sort()).toEqual([
    ...['DATABASE_EXISTS', 'DATABASE_NOT_FOUND', 'ITEM_EXISTS', 'ITEM_NOT_FOUND'],
    ...['PRECONDITION_FAILED', 'done'],
  ])
})

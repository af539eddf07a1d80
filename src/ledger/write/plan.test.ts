import { expect, it } from 'vitest'
import type { StoreReader } from '../../storage/index.ts'
import { planBatch } from './plan.ts'
import type { UnitOfWork } from './unit-of-work.ts'

const ITEM_CHARACTERS = 9 * 1024 * 1024

const ITEM = {
  ...{ id: 'x', created: 1, revision: 1 },
  text: `{"id":"x","text":"${'x'.repeat(ITEM_CHARACTERS)}"}`,
}
const smallUnit: UnitOfWork = [{ kind: 'delete_db', db: 'b' }]

/** A store with one large item in every database. */
const store = {
  serverId: 7,
  database: async (name: string) => ({ name, created: 0 }),
  item: async (_db: string, id: string) => (id === ITEM.id ? ITEM : null),
  // `store` has only the members that planning uses.
} as unknown as StoreReader

it("changes the database of a network only for the network, from the network's deployment on", async () => {
  const networkItem = 'org.hyperledger.composer.system.Network#net'
  const empty = {
    serverId: 7,
    database: async () => null,
    item: async () => null,
  } as unknown as StoreReader
  const create = (db: string, id: string): UnitOfWork => [
    { kind: 'create_item', db, id, text: `{"id":"${id}"}`, assigned: true },
  ]
  const units: UnitOfWork[] = [
    [{ kind: 'create_db', db: 'net' }],
    create('net', 'before'),
    [{ kind: 'create_item', db: 'net', id: networkItem, text: '{}', assigned: false }],
    create('net', 'after'),
    [{ kind: 'delete_db', db: 'net' }],
    create('net', 'by network'),
  ]
  const fromNetwork = {
    ...{ precondition: null, idempotency: null },
    network: { db: 'net', since: null },
  }
  const conditions = new Map([2, 5].map((at) => [at, fromNetwork]))
  const refused = {
    code: 'OWNED_BY_NETWORK',
    message: 'database net can be changed only through its network',
  }
  const { outcomes } = await planBatch(empty, units, 0, { nowMs: 0, conditions })
  expect(outcomes).toEqual([
    ...[{ index: 0 }, { index: 1 }, { index: 2 }],
    ...[refused, refused, { index: 3 }],
  ])
  const stored = {
    ...empty,
    database: async (name: string) => ({ name, created: 0 }),
    item: async (_db: string, id: string) => (id === networkItem ? { id } : null),
  } as unknown as StoreReader
  const later = await planBatch(stored, [create('net', 'a'), create('other', 'b')], 1)
  expect(later.outcomes).toEqual([refused, { index: 0 }])
  const restore = { ...fromNetwork, network: 'all' } as const
  const all = new Map(units.map((_, at) => [at, restore]))
  const restored = await planBatch(empty, units.slice(0, 4), 0, { nowMs: 0, conditions: all })
  expect(restored.outcomes).toEqual([0, 1, 2, 3].map((index) => ({ index })))
})

it('keeps a database writable when a client that is not its network tries to create the item of a network', async () => {
  const id = 'org.hyperledger.composer.system.Network#db'
  const create = (db: string, item: string): UnitOfWork => [
    { kind: 'create_item', db, id: item, text: '{}', assigned: false },
  ]
  const stored = {
    serverId: 7,
    database: async (name: string) => ({ name, created: 0 }),
    item: async () => null,
    existingIds: async () => [],
  } as unknown as StoreReader
  const { outcomes } = await planBatch(
    stored,
    [create('db', id), create('db', 'a'), create('other', id)],
    0,
  )
  expect(outcomes).toEqual([
    {
      code: 'OWNED_BY_NETWORK',
      message: `item ${id} of db can be changed only through its network`,
    },
    ...[{ index: 0 }, { index: 1 }],
  ])
})

it('reads in one statement per database which items of a batch exist, and their texts only for patches', async () => {
  const reads: string[] = []
  const counting = {
    serverId: 7,
    database: async (name: string) => ({ name, created: 0 }),
    item: async (db: string, id: string) => {
      if (!id.includes('#')) reads.push(`${db} ${id}`)
      return id === 'old' ? { ...ITEM, id, text: '{"id":"old"}' } : null
    },
    existingIds: async (db: string, ids: readonly string[]) => {
      reads.push(`${db} ${ids.join(',')}`)
      return ids.filter((id) => id === 'old')
    },
  } as unknown as StoreReader
  const item = (db: string, id: string) => ({ db, id, text: `{"id":"${id}"}` })
  const units: UnitOfWork[] = [
    [
      { kind: 'create_item', ...item('a', 'new'), assigned: false },
      { kind: 'create_item', ...item('b', 'own'), assigned: true },
      { kind: 'patch_item', ...item('b', 'old'), currentBytes: 0 },
    ],
    [{ kind: 'delete_item', db: 'a', id: 'old' }],
    [{ kind: 'update_item', ...item('b', 'old') }],
    [{ kind: 'create_item', ...item('a', 'new'), assigned: false }],
    [{ kind: 'update_item', ...item('b', 'none') }],
  ]
  const { outcomes } = await planBatch(counting, units, 0)
  expect(outcomes).toMatchObject([
    ...[{ index: 0 }, { index: 3 }, { index: 4 }],
    ...[{ code: 'ITEM_EXISTS' }, { code: 'ITEM_NOT_FOUND' }],
  ])
  expect(reads).toEqual(['a new,old,new', 'b old,none', 'b old'])
})

it('plans small patches of large items, recorded or refused, a few per block, so that no block takes long', async () => {
  const patch = (text: string): UnitOfWork => [
    { kind: 'patch_item', db: 'a', id: 'x', text, currentBytes: 0 },
  ]
  const tooLarge = patch(`{"more":"${'x'.repeat(2 * 1024 * 1024)}"}`)
  const patches = Array.from({ length: 20 }, (_, n) => patch(`{"n":${n}}`))
  const recorded = await planBatch(store, [smallUnit, ...patches], 0)
  expect(recorded.outcomes).toEqual([{ index: 0 }, { index: 1 }])
  expect([recorded.entries.length, recorded.effects.length]).toEqual([2, 2])
  const { outcomes } = await planBatch(store, [tooLarge, ...patches], 0)
  expect(outcomes).toMatchObject([{ code: 'ITEM_TOO_LARGE' }])
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import { parseJson } from '../../base/json.ts'
import { type Entry, packPosition, positionText } from '../../chain/index.ts'
import { compareByOrder, matches, parseFilter, toSortValues } from '../../filter/index.ts'
import { erasedItemText } from '../port/erasure.ts'
import type { ItemSearch } from '../port/store.ts'
import { verifyStore } from '../verify/verify.ts'
import { appendEntries, entry, StoreStage, type StoreUnderTest } from './test-store.ts'

interface Life {
  readonly id: string
  readonly created: number
  readonly revision: number
}

interface Database {
  readonly name: string
  readonly created: number
  readonly items: readonly Life[]
}

type Step = readonly [
  kind: 'put' | 'put' | 'remove' | 'drop' | 'erase' | 'maintain',
  number,
  number,
]
const anyStep: fc.Arbitrary<Step> = fc.tuple(
  fc.constantFrom('put', 'put', 'put', 'put', 'remove', 'remove', 'drop', 'erase', 'maintain'),
  fc.nat(1),
  fc.nat(5),
)
const anyQuery = fc.record({
  where: fc.constantFrom(
    {},
    { n: { gt: 2 } },
    { id: { inq: ['i1', 'i4'] } },
    { n: { exists: false } },
  ),
  order: fc.constantFrom([], ['n'], ['n DESC', 'id']),
  offset: fc.nat(3),
  limit: fc.option(fc.integer({ min: 1, max: 4 })),
  text: fc.boolean(),
})

/** Remembers all databases after each block, and the texts of all revisions. */
class Model {
  readonly states: (readonly Database[])[] = []
  readonly texts = new Map<number, string>()
  /** Former revisions that are not erased, by database and item. */
  readonly former = new Map<string, number[]>()
  #databases: readonly Database[] = []

  get height(): number {
    return this.states.length
  }

  /** Returns the entries of `steps` in the next block, and applies them. */
  entries(steps: readonly Step[]): Entry[] {
    const entries: Entry[] = []
    for (const [kind, which, n] of steps) {
      const position = packPosition(this.height, entries.length)
      entries.push(...this.#entry(kind, `db${which}`, `i${n % 4}`, n, position))
    }
    this.states.push(this.#databases)
    return entries
  }

  #entry(kind: Step[0], name: string, id: string, n: number, position: number): Entry[] {
    const database = this.#databases.find((each) => each.name === name)
    if (database === undefined) {
      this.#databases = [...this.#databases, { name, created: position, items: [] }]
      return [entry.createDb(name)]
    }
    const others = this.#databases.filter((each) => each !== database)
    const set = (items: readonly Life[]) => {
      const changed = [...others, { ...database, items }]
      this.#databases = changed.sort((one, other) => one.created - other.created)
    }
    const item = database.items.find((each) => each.id === id)
    const key = `${name} ${id}`
    const isFormer = (revision: number) => {
      this.former.set(key, [...(this.former.get(key) ?? []), revision])
    }
    switch (kind) {
      case 'drop':
        for (const each of database.items) {
          const list = this.former.get(`${name} ${each.id}`) ?? []
          this.former.set(`${name} ${each.id}`, [...list, each.revision])
        }
        this.#databases = others
        return [entry.deleteDb(name)]
      case 'erase': {
        const erased = (this.former.get(key) ?? []).filter(
          (one) => one < packPosition(this.height, 0),
        )
        if (erased.length === 0) return []
        this.former.set(
          key,
          (this.former.get(key) ?? []).filter((one) => !erased.includes(one)),
        )
        for (const one of erased) this.texts.set(one, erasedItemText(id))
        return [entry.erase(name, id, erased.map(positionText))]
      }
      case 'remove':
        if (item === undefined) return []
        isFormer(item.revision)
        set(database.items.filter((each) => each !== item))
        return [entry.remove(name, id)]
      default: {
        const text = JSON.stringify({ id, n })
        this.texts.set(position, text)
        if (item === undefined) {
          set([...database.items, { id, created: position, revision: position }])
          return [entry.create(name, id, n)]
        }
        isFormer(item.revision)
        set(database.items.map((each) => (each === item ? { ...each, revision: position } : each)))
        return [entry.update(name, id, n)]
      }
    }
  }
}

/** Tests the guarantees of every engine for reads of the state at a height. */
export function describeFormerItems(name: string, make: () => StoreUnderTest): void {
  describe(`the state at a height on ${name}`, () => {
    const stage = new StoreStage(make)

    it('equals a replay of the chain up to this height, in lists, searches and counts', async () => {
      await stage.open()
      const model = new Model()
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(anyStep, { minLength: 1, maxLength: 4 }), {
            minLength: 1,
            maxLength: 6,
          }),
          fc.array(fc.tuple(fc.nat(), anyQuery), { minLength: 3, maxLength: 6 }),
          async (blocks, questions) => {
            for (const steps of blocks) {
              const changes = steps.filter(([kind]) => kind !== 'maintain')
              const entries = model.entries(changes)
              if (entries.length > 0) await appendEntries(stage.store, entries)
              else model.states.pop()
              if (changes.length < steps.length) await stage.store.maintain()
            }
            for (const [number, query] of questions)
              await check(model, number % model.height, query)
            await checkLives(model)
          },
        ),
        { numRuns: roundsOf(100) },
      )
      expect(model.height).toBeGreaterThan(10)
      const reader = await stage.read()
      expect((await verifyStore(reader)).finding).toBeNull()
      await reader.close()
    })

    /** Compares the revisions that can be erased, by item and by life. */
    async function checkLives({ former }: Model): Promise<void> {
      const { store } = stage
      const everything = { from: 0, to: Number.MAX_SAFE_INTEGER, limit: 10_000 }
      for (const name of ['db0', 'db1']) {
        const current = await store.database(name)
        const deleted = (await store.deletedDatabases()).filter((each) => each.name === name)
        const found = new Map<string, number[]>()
        for (const { created } of [...deleted, ...(current === null ? [] : [current])]) {
          const lives = await store.lives(created, -1, 1_000)
          const one = await store.lives(created, lives.at(-2)?.created ?? -1, 1)
          expect(one).toEqual(lives.slice(-1))
          const own = new Map<string, number[]>()
          for (const { id, ...life } of lives) {
            const { deleted: end } = life
            const range = { ...everything, from: life.created, to: end ?? everything.to }
            const positions = await store.unerasedRevisions(created, id, range)
            expect([id, life.hasFormerContent]).toEqual([id, positions.length > 0])
            own.set(id, [...(own.get(id) ?? []), ...positions])
          }
          for (const [id, positions] of own) {
            expect(await store.unerasedRevisions(created, id, everything)).toEqual(positions)
            found.set(id, [...(found.get(id) ?? []), ...positions])
          }
        }
        for (const id of ['i0', 'i1', 'i2', 'i3']) {
          expect(found.get(id) ?? []).toEqual(former.get(`${name} ${id}`) ?? [])
        }
      }
    }

    async function check(
      { states, texts }: Model,
      height: number,
      {
        where,
        order,
        offset,
        limit,
        text,
      }: typeof anyQuery extends fc.Arbitrary<infer Q> ? Q : never,
    ): Promise<void> {
      const before = packPosition(height + 1, 0)
      const databases = states[height] ?? []
      const named = databases.map(({ name, created }) => ({ name, created }))
      expect(await stage.store.databasesBefore(before)).toEqual(named)
      const filter = parseFilter({ filter: JSON.stringify({ where, order }) })
      if (filter === null) throw new Error('no filter')
      for (const { name, created, items } of databases) {
        expect(await stage.store.databaseBefore(name, before)).toEqual({ name, created })
        const matching = items
          .map((item) => ({ ...item, text: texts.get(item.revision) ?? '' }))
          .filter((item) => matches(filter.where ?? { kind: 'all', of: [] }, parseJson(item.text)))
        const ties = filter.order.at(-1)?.descending === true ? -1 : 1
        const keys = (item: { text: string }) => toSortValues(filter.order, parseJson(item.text))
        const sorted = matching.toSorted(
          (one, other) =>
            compareByOrder(filter.order, keys(one), keys(other)) ||
            (one.created - other.created) * ties,
        )
        const end = limit === null ? undefined : offset + limit
        const expected = sorted
          .slice(offset, end)
          .map((item) => (text ? item : { ...item, text: null }))
        const search: ItemSearch = { ...filter, after: null, offset, limit, text }
        const { pieces } = await stage.store.search(created, search, before)
        const found = []
        for await (const piece of pieces) found.push(...piece)
        expect([height, name, found]).toEqual([height, name, expected])
        let count = 0
        const counted = await stage.store.count(created, filter.where, before)
        for await (const piece of counted.pieces) count += piece
        expect(count).toBe(matching.length)
        const positions = items.map((item) => item.created)
        const read = await stage.store.itemsBefore(created, positions, before)
        expect(read).toEqual(items.map((item) => ({ ...item, text: texts.get(item.revision) })))
        for (const { id, created: at } of items) {
          expect(await stage.store.createdBefore(created, id, before)).toBe(at)
        }
        expect(await stage.store.createdBefore(created, 'none', before)).toBeNull()
      }
    }

    it('the state at a height is counted, and listed from any offset, among items that exist and items that were deleted', async () => {
      await stage.open()
      const ids = Array.from({ length: 3_000 }, (_, n) => `${n}`)
      await appendEntries(stage.store, [entry.createDb('a')])
      await appendEntries(
        stage.store,
        ids.map((id) => entry.create('a', id)),
      )
      const early = ids.filter((_id, n) => n % 7 === 0)
      await appendEntries(
        stage.store,
        early.map((id) => entry.remove('a', id)),
      )
      const before = packPosition(3, 0)
      const late = ids.filter((_id, n) => n % 7 !== 0 && n % 3 === 0)
      await appendEntries(
        stage.store,
        late.map((id) => entry.remove('a', id)),
      )
      await appendEntries(stage.store, [entry.create('a', '0'), entry.update('a', '1')])
      const there = ids.filter((_id, n) => n % 7 !== 0)
      const counted = await stage.store.count(0, null, before)
      let count = 0
      for await (const piece of counted.pieces) count += piece
      expect(count).toBe(there.length)
      for (const offset of [0, 998, 999, 1_000, 1_714, 2_000, 2_560, there.length - 1, 4_000]) {
        for (const limit of [2, null]) {
          const query = { where: null, order: [], after: null, offset, limit, text: true }
          const found: string[] = []
          for await (const piece of (await stage.store.search(0, query, before)).pieces) {
            found.push(...piece.map(({ id, text }) => `${id} ${text}`))
          }
          const expected = there.slice(offset, limit === null ? undefined : offset + limit)
          expect(found).toEqual(expected.map((id) => `${id} {"id":"${id}","n":0}`))
        }
      }
    })

    it('the state at a height is counted in bounded pieces, however many of its items were deleted later', async () => {
      await stage.open()
      const ids = Array.from({ length: 2_500 }, (_, n) => `${n}`)
      await appendEntries(stage.store, [entry.createDb('a')])
      await appendEntries(
        stage.store,
        ids.map((id) => entry.create('a', id)),
      )
      await appendEntries(
        stage.store,
        ids.map((id) => entry.remove('a', id)),
      )
      const { pieces } = await stage.store.count(0, null, packPosition(2, 0))
      const counts: number[] = []
      for await (const count of pieces) counts.push(count)
      expect(counts).toEqual([1_000, 1_000, 500])
    })

    it('the state at a height is read from the blocks of items that changed while they are listed', async () => {
      await stage.open()
      const ids = Array.from({ length: 1_500 }, (_, n) => `${n}`)
      await appendEntries(stage.store, [entry.createDb('a')])
      await appendEntries(
        stage.store,
        ids.map((id) => entry.create('a', id, 'x'.repeat(1_000))),
      )
      const before = packPosition(2, 0)
      const query = { where: null, order: [], after: null, offset: 0, limit: null, text: true }
      const { pieces } = await stage.store.search(0, query, before)
      const found: string[] = []
      let isChanged = false
      for await (const piece of pieces) {
        found.push(...piece.map(({ id, text }) => `${id} ${text?.length}`))
        if (isChanged) continue
        isChanged = true
        await appendEntries(
          stage.store,
          ids.slice(0, 1_400).map((id) => entry.update('a', id)),
        )
        await appendEntries(
          stage.store,
          ids.slice(1_000).map((id) => entry.remove('a', id)),
        )
      }
      const lengthOf = (id: string) => JSON.stringify({ id, n: 'x'.repeat(1_000) }).length
      expect(found).toEqual(ids.map((id) => `${id} ${lengthOf(id)}`))
    })
  })
}

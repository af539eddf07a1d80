import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import {
  compareByOrder,
  type Filter,
  matches,
  parseFilter,
  type SortValue,
  toSortValues,
} from '../../filter/index.ts'
import { INDEXES_PER_DATABASE, type ItemSearch, SORTED_ITEMS_MAX } from '../port/store.ts'
import { verifyStore } from '../verify/verify.ts'
import { item, order, shortPath, where } from './test-filters.ts'
import {
  appendEntries,
  CONTRACT_SERVER_ID,
  entry,
  StoreStage,
  type StoreUnderTest,
} from './test-store.ts'

const serverid = CONTRACT_SERVER_ID
const everything = { where: null, order: [], after: null, offset: 0, limit: null, text: false }

const read = (filter: Json): Filter => {
  const found = parseFilter({ filter: JSON.stringify(filter) })
  if (found === null) throw new Error('no filter')
  return found
}

/** Returns the ids of the `items` that match `filter`, computed in plain JavaScript. */
function expectedIds(items: readonly JsonObject[], filter: Filter): string[] {
  const rows = items
    .filter((each) => filter.where === null || matches(filter.where, each))
    .map((each, at): { id: string; at: number; values: SortValue[] } => ({
      id: String(each.id),
      at,
      values: toSortValues(filter.order, each),
    }))
  const tieOrder = filter.order.at(-1)?.descending === true ? -1 : 1
  rows.sort(
    (one, other) =>
      compareByOrder(filter.order, one.values, other.values) || (one.at - other.at) * tieOrder,
  )
  const offset = filter.offset ?? 0
  return rows
    .slice(offset, filter.limit === null ? undefined : offset + filter.limit)
    .map(({ id }) => id)
}

/** Tests the guarantees of every engine for searches and declared indexes. */
export function describeSearch(name: string, make: () => StoreUnderTest): void {
  describe(`searches and indexes on ${name}`, () => {
    const stage = new StoreStage(make)
    const found = async (db: string, query: Partial<ItemSearch>) => {
      const { created } = (await stage.store.database(db)) ?? { created: -1 }
      const { index, pieces } = await stage.store.search(created, { ...everything, ...query })
      const items = []
      for await (const piece of pieces) items.push(...piece)
      return { index, items, ids: items.map(({ id }) => id) }
    }
    const counted = async (db: string, where: Filter['where']) => {
      const { created } = (await stage.store.database(db)) ?? { created: -1 }
      const { index, pieces } = await stage.store.count(created, where)
      let count = 0
      for await (const piece of pieces) count += piece
      return { index, count }
    }
    const built = async () => {
      while (await stage.store.maintain());
    }
    const create = (db: string, given: JsonObject) =>
      ({ serverid, method: 'create_item', db, item: { ...given, id: String(given.id) } }) as const
    const update = (db: string, given: JsonObject) =>
      ({ serverid, method: 'update_item', db, item: { ...given, id: String(given.id) } }) as const

    it('a search returns the matches in order, with and without indexes, as items change', async () => {
      await stage.open()
      let run = 0
      await fc.assert(
        fc.asyncProperty(
          fc.array(item, { maxLength: 9 }),
          fc.array(
            fc.record(
              { where, order, limit: fc.integer({ min: 1, max: 5 }), offset: fc.nat(3) },
              { requiredKeys: [] },
            ),
            {
              minLength: 3,
              maxLength: 6,
            },
          ),
          fc.array(shortPath, { maxLength: 3 }),
          fc.array(fc.tuple(fc.nat(8), fc.option(item)), { maxLength: 5 }),
          fc.boolean(),
          async (items, filters, paths, changes, early) => {
            run += 1
            const db = `d${run}`
            const now = items.map((each, at): JsonObject => ({ ...each, id: `${at}` }))
            const check = async () => {
              for (const filter of filters.map((each) => read(each))) {
                const { where, order, limit } = filter
                const { ids } = await found(db, { where, order, limit, offset: filter.offset ?? 0 })
                expect(ids).toEqual(expectedIds(now, filter))
                const all = expectedIds(now, { ...filter, limit: null, offset: null })
                expect((await counted(db, where)).count).toBe(all.length)
              }
            }
            await appendEntries(stage.store, [entry.createDb(db)])
            if (early) for (const each of paths) await stage.store.addIndex(db, each)
            await appendEntries(stage.store, [
              entry.createDb(`${db}x`),
              ...now.map((each) => create(db, each)),
            ])
            if (!early) {
              await check()
              for (const each of paths) await stage.store.addIndex(db, each)
            }
            // If `early`, the following changes happen during the build of the indexes, otherwise after it.
            if (!early) await built()
            for (const [at, content] of changes) {
              const id = `${at}`
              const index = now.findIndex((each) => each.id === id)
              if (index === -1) continue
              const next: JsonObject = { ...content, id }
              await appendEntries(stage.store, [
                content === null ? entry.remove(db, id) : update(db, next),
              ])
              if (content === null) now.splice(index, 1)
              else now[index] = next
            }
            await built()
            await check()
          },
        ),
        { numRuns: roundsOf(120) },
      )
      expect((await verifyStore(stage.store)).finding).toBeNull()
    })

    it('a path continues in each element of an array, but not in an array in an array', async () => {
      await stage.open()
      const contents: readonly JsonObject[] = [
        { a: { b: { c: 1 } } },
        { a: [{ b: { c: 1 } }, 2] },
        { a: { b: [{ c: 2 }, { c: [3, 1] }] } },
        { a: [{ b: [{ c: 1 }] }] },
        { a: [[{ b: { c: 1 } }]] },
        { a: { b: { c: [[1]] } } },
        { a: '{"b":{"c":1}}' },
        { a: ['{"b":{"c":1}}', { b: 1 }] },
      ]
      const items = contents.map((each, at) => create('fruit', { ...each, id: `${at}` }))
      await appendEntries(stage.store, [entry.createDb('fruit'), ...items])
      const ids = async (where: Json) =>
        (await found('fruit', { where: read({ where }).where })).ids
      expect(await ids({ 'a.b.c': 1 })).toEqual(['0', '1', '2', '3'])
      expect(await ids({ 'a.b.c': { gt: 2 } })).toEqual(['2'])
      expect(await ids({ 'a.b.c': { exists: true } })).toEqual(['0', '1', '2', '3', '5'])
      expect(await ids({ 'a.b.c': null })).toEqual(['4', '6', '7'])
    })

    const fruit = async (count: number) => {
      await stage.open()
      await appendEntries(stage.store, [entry.createDb('fruit')])
      for (let at = 0; at < count; at += 1_000) {
        const items = Array.from({ length: Math.min(1_000, count - at) }, (_, n) =>
          create('fruit', {
            id: `${at + n}`,
            n: at + n,
            odd: (at + n) % 2,
            tens: [Math.floor((at + n) / 10)],
          }),
        )
        await appendEntries(stage.store, items)
      }
    }

    it('uses an index for one value, several values, a range with one or two bounds, and an order', async () => {
      await fruit(3_000)
      for (const path of ['n', 'odd', 'tens'])
        expect(await stage.store.addIndex('fruit', path)).toBe('done')
      await built()
      const cases: [Json, string | null, number][] = [
        [{ where: { n: 7 } }, 'n', 1],
        [{ where: { odd: 1 } }, 'odd', 1_500],
        [{ where: { tens: 4 } }, 'tens', 10],
        [{ where: { n: { inq: [1, 2, 9_999] } } }, 'n', 2],
        [{ where: { n: { gte: 10, lt: 20 }, odd: 0 } }, 'odd', 5],
        [{ where: { n: { lt: 20, gte: 10 } } }, 'n', 10],
        [{ where: { n: { between: [10, 20] } } }, 'n', 11],
        [{ where: { tens: { gt: 298 } }, order: 'n DESC' }, 'tens', 10],
        [{ order: 'n DESC', limit: 3 }, 'n', 3],
        [{ where: { id: { like: '%7' } }, order: 'n', limit: 3 }, 'n', 3],
        [{ where: { or: [{ n: 1 }, { n: 2 }] } }, null, 2],
        [{ where: { n: { neq: 1 } } }, null, 2_999],
        [{ where: { id: '5' }, order: 'id' }, null, 1],
      ]
      for (const [filter, index, count] of cases) {
        const { where, order, limit } = read(filter)
        const result = await found('fruit', { where, order, limit })
        expect([result.index, result.ids.length], JSON.stringify(filter)).toEqual([index, count])
      }
      const last = await found('fruit', {
        order: read({ order: 'n DESC' }).order,
        limit: 2,
        text: true,
      })
      expect(last.items.map(({ text }) => JSON.parse(text ?? '').n)).toEqual([2_999, 2_998])
    })

    it('counts the matches of any `where`, with and without indexes', async () => {
      await fruit(3_000)
      const cases: [Json, string | null, number][] = [
        [{}, null, 3_000],
        [{ odd: 1 }, 'odd', 1_500],
        [{ tens: 4 }, 'tens', 10],
        [{ n: { inq: [1, 2, 9_999] } }, 'n', 2],
        [{ n: { gte: 10, lt: 20 } }, 'n', 10],
        [{ n: { gte: 10, lt: 20 }, odd: 0 }, 'odd', 5],
        [{ n: { lt: 2_500 } }, 'n', 2_500],
        [{ id: { gte: '1', lt: '2' } }, 'id', 1_111],
        [{ id: { gte: '1', lt: '2' }, n: { gt: 1_500 } }, 'n', 499],
        [{ id: { like: '%7' } }, null, 300],
        [{ odd: { neq: 1 } }, null, 1_500],
        [{ none: 1 }, null, 0],
      ]
      for (const isIndexed of [false, true]) {
        if (isIndexed)
          for (const path of ['n', 'odd', 'tens']) await stage.store.addIndex('fruit', path)
        await built()
        for (const [where, index, count] of cases) {
          const result = await counted('fruit', read({ where }).where)
          const used = isIndexed || index === 'id' ? index : result.index
          expect(result, JSON.stringify(where)).toEqual({ index: used, count })
        }
      }
      expect((await counted('fruit', null)).count).toBe(3_000)
      expect((await counted('nuts', null)).count).toBe(0)
    })

    it('fails a count with SEARCH_INTERRUPTED if its index is removed during the count', async () => {
      await fruit(100)
      await stage.store.addIndex('fruit', 'odd')
      await built()
      const { created } = (await stage.store.database('fruit')) ?? { created: -1 }
      const { pieces } = await stage.store.count(created, read({ where: { odd: 1 } }).where)
      await stage.store.removeIndex('fruit', 'odd')
      const first = pieces[Symbol.asyncIterator]().next()
      await expect(first).rejects.toMatchObject({ code: 'SEARCH_INTERRUPTED' })
    })

    it('evaluates the largest possible `where` correctly', async () => {
      await fruit(30)
      const deep = (n: number) => ({ [`a.b.c.d.e.f.g.n${n}`]: { inq: [1, 'x', null] } })
      const holding: Json = { and: Array.from({ length: 99 }, (_, n) => deep(n)) }
      const nested = (depth: number): Json => (depth === 0 ? holding : { or: [nested(depth - 1)] })
      const { where } = read({ where: nested(7) })
      expect((await found('fruit', { where })).ids).toHaveLength(30)
      const { where: none } = read({ where: { and: [nested(6), { n: -1 }] } })
      expect((await found('fruit', { where: none })).ids).toEqual([])
    })

    it('scans a range of ids in the order of ids, in both directions, with any other conditions, and counts the items', async () => {
      await stage.open()
      const ids = ['b#2', 'a#10', 'a#9', 'a', 'a$', 'a#', 'a#é', 'a#🍎', 'a#\ue000', 'b#1']
      const made = [...ids, ...Array.from({ length: 2_500 }, (_, n) => `c#${10_000 + n}`)]
      await appendEntries(stage.store, [{ serverid, method: 'create_db', db: 'd' }])
      const items = made.map((id, n) => create('d', { id, n, odd: n % 2 }))
      for (let at = 0; at < items.length; at += 500) {
        await appendEntries(stage.store, items.slice(at, at + 500))
      }
      const { created } = (await stage.store.database('d')) ?? { created: -1 }
      const range = (type: string) => ({ id: { gte: `${type}#`, lt: `${type}$` } })
      const ofA = ['a#', 'a#10', 'a#9', 'a#é', 'a#\ue000', 'a#🍎']
      const both = read({ where: { and: [range('a'), { n: { gt: 4 } }] }, order: 'id' })
      const up = { where: both.where, order: both.order }
      expect(await found('d', up)).toMatchObject({
        index: 'id',
        ids: ofA.filter((id) => ids.indexOf(id) > 4),
      })
      for (const indexed of [false, true]) {
        if (indexed) {
          await stage.store.addIndex('d', 'odd')
          await built()
        }
        for (const [type, all] of [
          ['a', ofA],
          ['b', ['b#1', 'b#2']],
          ['c', made.slice(ids.length)],
          ['d', []],
        ] as const) {
          expect(await stage.store.countIds(created, `${type}#`, `${type}$`)).toBe(all.length)
          for (const order of ['id ASC', 'id DESC']) {
            const sorted = order === 'id ASC' ? all : all.toReversed()
            for (const odd of [null, 0, 1]) {
              const and = [range(type), ...(odd === null ? [] : [{ odd }])]
              const filter = read({ where: { and }, order })
              const wanted = sorted.filter((id) => odd === null || made.indexOf(id) % 2 === odd)
              const query = { where: filter.where, order: filter.order }
              expect((await found('d', query)).ids).toEqual(wanted)
              const page = await found('d', { ...query, offset: 3, limit: 1_100, text: true })
              expect(page.ids).toEqual(wanted.slice(3, 1_103))
            }
          }
        }
      }
    })

    it('continues a search after a position, in creation order', async () => {
      await fruit(2_500)
      await stage.store.addIndex('fruit', 'odd')
      const after = (await stage.store.item('fruit', '2490'))?.created ?? null
      for (const isBuilt of [false, true]) {
        if (isBuilt) await built()
        const { where } = read({ where: { odd: 1 } })
        expect((await found('fruit', { where, after })).ids).toEqual([
          '2491',
          '2493',
          '2495',
          '2497',
          '2499',
        ])
        expect((await found('fruit', { where, after, offset: 1, limit: 2 })).ids).toEqual([
          '2493',
          '2495',
        ])
      }
    })

    it('builds an index step by step, reports its progress, keeps it across a restart, and uses it when it is complete', async () => {
      await fruit(2_200)
      const { where } = read({ where: { n: 7 } })
      await stage.store.addIndex('fruit', 'n')
      expect(await stage.store.addIndex('fruit', 'n')).toBe('exists')
      expect(await stage.store.addIndex('nuts', 'n')).toBe('no-database')
      expect(await stage.store.indexes()).toEqual([
        { db: 'fruit', path: 'n', isReady: false, done: 0, total: 4 },
      ])
      expect(await stage.store.maintain()).toBe(true)
      expect((await found('fruit', { where })).index).toBeNull()
      await stage.store.maintain()
      const progress = await stage.store.indexes()
      expect(progress).toMatchObject([{ isReady: false, total: 4 }])
      await stage.reopen()
      expect(await stage.store.indexes()).toEqual(progress)
      // Concurrent changes affect neither the finished indexes nor the index that is being built.
      await appendEntries(stage.store, [
        update('fruit', { id: '3', n: 7 }),
        update('fruit', { id: '2100', n: 7 }),
        create('fruit', { id: 'new', n: 7 }),
        entry.remove('fruit', '7'),
        entry.remove('fruit', '2150'),
      ])
      expect((await verifyStore(stage.store)).finding).toBeNull()
      await built()
      expect(await found('fruit', { where })).toMatchObject({
        index: 'n',
        ids: ['3', '2100', 'new'],
      })
      expect(await stage.store.indexes()).toEqual([
        { db: 'fruit', path: 'n', isReady: true, done: 5, total: 5 },
      ])
      expect((await verifyStore(stage.store)).finding).toBeNull()
    })

    it('completes a build that was interrupted at any step, with changes before and after the interruption', async () => {
      await fruit(2_200)
      for (let steps = 1; steps <= 6; steps += 1) {
        const change = (id: number) =>
          appendEntries(stage.store, [
            update('fruit', { id: `${id}`, tens: [id, 1] }),
            update('fruit', { id: `${2_199 - id}`, tens: [id, 2] }),
            entry.remove('fruit', `${1_000 + id}`),
            create('fruit', { id: `new${id}`, tens: [id, 3] }),
          ])
        await stage.store.addIndex('fruit', 'tens')
        for (let step = 0; step < steps; step += 1) await stage.store.maintain()
        await change(10 * steps)
        await expect(change(10 * steps)).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
        await stage.store.maintain()
        await change(10 * steps + 1)
        await stage.reopen()
        await change(10 * steps + 2)
        await stage.store.maintain()
        expect((await verifyStore(stage.store)).finding).toBeNull()
        await built()
        const { where } = read({ where: { tens: 10 * steps + 2 } })
        const ids = [`${10 * steps + 2}`, `${2_197 - 10 * steps}`, `new${10 * steps + 2}`]
        const { ids: all } = await found('fruit', { where })
        expect(all).toEqual(expect.arrayContaining(ids))
        expect((await verifyStore(stage.store)).finding).toBeNull()
        await stage.store.removeIndex('fruit', 'tens')
        await built()
      }
    })

    it('removes indexes with their database or on request, and a new index of the same name starts empty', async () => {
      await fruit(1_500)
      await stage.store.addIndex('fruit', 'n')
      await stage.store.addIndex('fruit', 'odd')
      await built()
      expect(await stage.store.removeIndex('fruit', 'odd')).toBe('done')
      expect(await stage.store.removeIndex('fruit', 'odd')).toBe('missing')
      await stage.store.addIndex('fruit', 'odd')
      expect((await verifyStore(stage.store)).finding).toBeNull()
      await appendEntries(stage.store, [
        entry.deleteDb('fruit'),
        entry.createDb('fruit'),
        create('fruit', { id: 'a', n: 1 }),
      ])
      expect(await stage.store.indexes()).toEqual([])
      expect((await verifyStore(stage.store)).finding).toBeNull()
      await built()
      await stage.store.addIndex('fruit', 'n')
      await built()
      const { where } = read({ where: { n: 1 } })
      expect(await found('fruit', { where })).toMatchObject({ index: 'n', ids: ['a'] })
      expect((await verifyStore(stage.store)).finding).toBeNull()
    })

    it('a rejected block leaves the indexes unchanged', async () => {
      await fruit(10)
      await stage.store.addIndex('fruit', 'n')
      await built()
      const refused = appendEntries(stage.store, [
        update('fruit', { id: '1', n: 77 }),
        entry.deleteDb('fruit'),
        entry.remove('nuts', 'x'),
      ])
      await expect(refused).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
      const { where } = read({ where: { n: { inq: [1, 77] } } })
      expect(await found('fruit', { where })).toMatchObject({ index: 'n', ids: ['1'] })
      expect((await verifyStore(stage.store)).finding).toBeNull()
    })

    it('scans the remaining items if the index of a search is removed during the search', async () => {
      await fruit(5_000)
      await stage.store.addIndex('fruit', 'odd')
      await built()
      const { created } = (await stage.store.database('fruit')) ?? { created: -1 }
      const { where } = read({ where: { odd: 1 } })
      const { index, pieces } = await stage.store.search(created, { ...everything, where })
      expect(index).toBe('odd')
      let count = 0
      for await (const piece of pieces) {
        count += piece.length
        if ((await stage.store.removeIndex('fruit', 'odd')) === 'done') await built()
      }
      expect(count).toBe(2_500)
      await stage.store.addIndex('fruit', 'n')
      await built()
      const inOrder = await stage.store.search(created, {
        ...everything,
        order: read({ order: 'n' }).order,
      })
      const interrupted = (async () => {
        for await (const _ of inOrder.pieces) await stage.store.removeIndex('fruit', 'n')
      })()
      await expect(interrupted).rejects.toMatchObject({ code: 'SEARCH_INTERRUPTED' })
    })

    it('a search never gives an item that has changed meanwhile and matches no more', async () => {
      const long = 'x'.repeat(100_000)
      for (const isIndexed of [false, true]) {
        const db = `d${isIndexed}`
        if (!isIndexed) await stage.open()
        const ids = Array.from({ length: 40 }, (_, at) => `${at}`)
        await appendEntries(stage.store, [entry.createDb(db)])
        await appendEntries(
          stage.store,
          ids.map((id) => create(db, { id, n: 1, long })),
        )
        if (isIndexed) await stage.store.addIndex(db, 'n')
        await built()
        const { created } = (await stage.store.database(db)) ?? { created: -1 }
        const { where } = read({ where: { n: 1 } })
        for (const order of [[], read({ order: 'long' }).order]) {
          await appendEntries(
            stage.store,
            ids.map((id) => update(db, { id, n: 1, long })),
          )
          const query = { ...everything, where, order, text: true }
          const { pieces } = await stage.store.search(created, query)
          const numbers: unknown[] = []
          for await (const piece of pieces) {
            if (piece.length > 0 && numbers.length === 0) {
              const changed = ids.slice(20).map((id) => update(db, { id, n: 2 }))
              await appendEntries(stage.store, changed)
            }
            for (const { text } of piece) numbers.push(JSON.parse(text ?? '').n)
          }
          expect([isIndexed, order.length, numbers]).toEqual([
            isIndexed,
            order.length,
            Array.from({ length: 20 }, () => 1),
          ])
        }
      }
    })

    it(`a database has at most ${INDEXES_PER_DATABASE} indexes`, async () => {
      await fruit(1)
      for (let at = 0; at < INDEXES_PER_DATABASE; at += 1) {
        expect(await stage.store.addIndex('fruit', `p${at}`)).toBe('done')
      }
      expect(await stage.store.addIndex('fruit', 'one.more')).toBe('too-many')
    })

    it(`sorts ${SORTED_ITEMS_MAX} items without an index, and more only with a limit or an index`, async () => {
      await fruit(SORTED_ITEMS_MAX + 1)
      const { order } = read({ order: 'n DESC' })
      await expect(found('fruit', { order })).rejects.toMatchObject({ code: 'SEARCH_TOO_LARGE' })
      const top = await found('fruit', { order, limit: 2, offset: 1 })
      expect([top.index, top.ids]).toEqual([
        null,
        [`${SORTED_ITEMS_MAX - 1}`, `${SORTED_ITEMS_MAX - 2}`],
      ])
      await stage.store.addIndex('fruit', 'n')
      await built()
      const all = await found('fruit', { order })
      expect([all.index, all.ids.length, all.ids[0]]).toEqual([
        'n',
        SORTED_ITEMS_MAX + 1,
        `${SORTED_ITEMS_MAX}`,
      ])
    })
  })
}

import { hash, randomBytes } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { canonicalJson } from '../base/canonical-json.ts'
import {
  type Attachment,
  type Block,
  type Entry,
  HASH_BYTES,
  headOf,
  packPosition,
  sealBlock,
} from '../chain/index.ts'
import { type Effect, effectOf } from './effect.ts'
import { ANSWERS_KEPT_MS, type NewAnswer } from './kept-answer.ts'
import { PAGE_CHARACTERS, type RevisionRange, type Store, type StoreReader } from './store.ts'

/** The server id of the node whose store is under test. */
export const CONTRACT_SERVER_ID = 4_126

/** An engine under test. */
export interface StoreUnderTest {
  /** Opens the same store again and again: what was appended is there. */
  open(): Promise<Store>
  /** Opens a reader beside the open store. */
  read(): Promise<StoreReader>
  /** Removes it. */
  remove(): void
}

/** Seals `entries` on what the store holds and appends them with their effects. */
export async function appendEntries(
  store: Store,
  entries: readonly Entry[],
  timestamp = 1,
  answers: readonly NewAnswer[] = [],
): Promise<Block> {
  const head = await store.head(store.serverId)
  const block = sealBlock(head, {
    serverId: store.serverId,
    entries: entries.map((entry) => canonicalJson(entry)),
    timestamps: entries.map(() => Math.max(timestamp, head?.timestamp ?? 0)),
    blinds: randomBytes(entries.length * HASH_BYTES),
  })
  await store.append(block, effectsOf(block.height, entries), answers)
  return block
}

function effectsOf(height: number, entries: readonly Entry[]): Effect[] {
  return entries.map((entry, index) => effectOf(entry, packPosition(height, index)))
}

/** A text as an attachment. */
function attachmentMadeOf(name: string, content: string): Attachment {
  const sha256 = hash('sha256', content, 'hex')
  return { content_type: 'text/plain', length: Buffer.byteLength(content), name, sha256 }
}

const serverid = CONTRACT_SERVER_ID
/** Entries, short. */
export const entry = {
  createDb: (db: string): Entry => ({ serverid, method: 'create_db', db }),
  deleteDb: (db: string): Entry => ({ serverid, method: 'delete_db', db }),
  create: (db: string, id: string, n: number | string = 0): Entry => ({
    serverid,
    method: 'create_item',
    db,
    item: { id, n },
  }),
  update: (db: string, id: string, n: number | string = 1): Entry => ({
    serverid,
    method: 'update_item',
    db,
    item: { id, n },
  }),
  erase: (db: string, id: string, positions: string[]): Entry => ({
    serverid,
    method: 'erase_item',
    db,
    id,
    positions,
  }),
  remove: (db: string, id: string): Entry => ({ serverid, method: 'delete_item', db, id }),
  attach: (db: string, id: string, name: string, content: string): Entry => ({
    serverid,
    method: 'create_attachment',
    db,
    id,
    attachment: attachmentMadeOf(name, content),
  }),
  detach: (db: string, id: string, name: string, content: string): Entry => ({
    serverid,
    method: 'delete_attachment',
    db,
    id,
    attachment: attachmentMadeOf(name, content),
  }),
}

/** What every engine guarantees; run as `describeStore('sqlite', …)`. */
export function describeStore(name: string, make: () => StoreUnderTest): void {
  describe(`a store on ${name}`, () => {
    let under: StoreUnderTest
    let store: Store
    const open = async () => {
      under = make()
      store = await under.open()
      return store
    }
    const reopen = async () => {
      await store.close()
      store = await under.open()
      return store
    }
    /** Expects the same of the store as it is and of the store opened again. */
    const expectLasting = async (expectations: (now: Store) => Promise<void>) => {
      await expectations(store)
      await expectations(await reopen())
    }
    afterEach(async () => {
      await store.close()
      under.remove()
    })

    it('is empty at first: no chain, no databases', async () => {
      await open()
      expect(await store.head(serverid)).toBeNull()
      expect(await store.databases()).toEqual([])
      expect(await store.blocks(serverid, 0, 10)).toEqual([])
    })

    it('gives blocks back byte for byte, also when it is opened again', async () => {
      await open()
      const first = await appendEntries(store, [entry.createDb('fruit')], 5)
      const second = await appendEntries(
        store,
        [entry.create('fruit', 'a'), entry.create('fruit', 'ü🍎')],
        7,
      )
      await expectLasting(async (now) => {
        const [one, two, ...more] = await now.blocks(serverid, 0, 10)
        expect(more).toEqual([])
        expect([plain(one), plain(two)]).toEqual([plain(first), plain(second)])
        expect(await now.head(serverid)).toEqual(headOf(second))
        expect(await now.head(serverid + 1)).toBeNull()
        expect((await now.blocks(serverid, 1, 1)).map(({ height }) => height)).toEqual([1])
        expect(await now.blocks(serverid + 1, 0, 1)).toEqual([])
      })
    })

    it('applies every kind of effect', async () => {
      await open()
      await appendEntries(store, [
        entry.createDb('fruit'),
        entry.create('fruit', 'a', 'old'),
        entry.create('fruit', 'b'),
      ])
      await appendEntries(store, [
        entry.update('fruit', 'a', 'new'),
        entry.remove('fruit', 'b'),
        entry.createDb('veg'),
      ])
      await expectLasting(async (now) => {
        expect(await now.databases()).toEqual([
          { name: 'fruit', created: packPosition(0, 0) },
          { name: 'veg', created: packPosition(1, 2) },
        ])
        expect(await now.database('veg')).toEqual({ name: 'veg', created: packPosition(1, 2) })
        expect(await now.database('nuts')).toBeNull()
        expect(await now.item('fruit', 'a')).toEqual({
          id: 'a',
          created: packPosition(0, 1),
          revision: packPosition(1, 0),
          text: '{"id":"a","n":"new"}',
        })
        expect(await now.item('fruit', 'b')).toBeNull()
        expect(await now.item('nuts', 'a')).toBeNull()
        expect(await now.countItems(packPosition(0, 0))).toBe(1)
      })
    })

    it('refuses a block that does not follow the head, and changes nothing', async () => {
      await open()
      const first = await appendEntries(store, [entry.createDb('fruit')])
      const stray = strayBlock(first)
      await expect(store.append(stray, [])).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      await expect(store.append({ ...first, serverId: 1 }, [])).rejects.toMatchObject({
        code: 'HEAD_MOVED',
      })
      await expect(store.append(first, [])).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      expect(await store.head(serverid)).toEqual(headOf(first))
    })

    const impossible: [string, Entry[]][] = [
      ['creating a database twice', [entry.createDb('fruit')]],
      ['deleting a database that is not there', [entry.deleteDb('nuts')]],
      ['creating an item twice', [entry.create('fruit', 'new'), entry.create('fruit', 'a')]],
      [
        'creating an item in no database',
        [entry.create('fruit', 'new'), entry.create('nuts', 'a')],
      ],
      [
        'updating an item that is not there',
        [entry.create('fruit', 'new'), entry.update('fruit', 'x')],
      ],
      [
        'deleting an item that is not there',
        [entry.remove('fruit', 'a'), entry.remove('fruit', 'a')],
      ],
      [
        'what fits, before what does not',
        [entry.deleteDb('fruit'), entry.createDb('fruit'), entry.update('fruit', 'a')],
      ],
    ]
    it.each(impossible)('refuses %s, and leaves nothing of the block', async (_, entries) => {
      await open()
      const before = await appendEntries(store, [
        entry.createDb('fruit'),
        entry.create('fruit', 'a', 'kept'),
      ])
      await expect(appendEntries(store, entries)).rejects.toMatchObject({
        code: 'EFFECT_IMPOSSIBLE',
      })
      const expectUnchanged = async () => {
        expect(await store.head(serverid)).toEqual(headOf(before))
        expect((await store.item('fruit', 'a'))?.text).toBe('{"id":"a","n":"kept"}')
        expect(await store.item('fruit', 'new')).toBeNull()
        expect(await store.databases()).toHaveLength(1)
      }
      await expectUnchanged()
      await reopen()
      await expectUnchanged()
      await appendEntries(store, [entry.update('fruit', 'a'), entry.create('fruit', 'new')])
      expect((await store.item('fruit', 'new'))?.id).toBe('new')
    })

    it('lists ids in the order of creation, whatever the ids and however they were changed', async () => {
      await open()
      await appendEntries(store, [entry.createDb('other'), entry.createDb('fruit')])
      const { created } = (await store.database('fruit')) ?? { created: -1 }
      await appendEntries(
        store,
        ['c', 'a', 'b', 'd'].map((id) => entry.create('fruit', id)),
      )
      await appendEntries(store, [
        entry.create('other', 'x'),
        entry.update('fruit', 'c'),
        entry.remove('fruit', 'b'),
      ])
      await appendEntries(store, [entry.create('fruit', 'b')])
      const ids = async (range: { after?: number; offset?: number; limit: number }) =>
        (await store.listIds(created, range)).map(({ id }) => id)
      expect(await ids({ limit: 10 })).toEqual(['c', 'a', 'd', 'b'])
      expect(await ids({ limit: 2, offset: 1 })).toEqual(['a', 'd'])
      const after = (await store.item('fruit', 'a'))?.created ?? -1
      expect(await ids({ limit: 10, after })).toEqual(['d', 'b'])
      expect(await ids({ limit: 1, after, offset: 1 })).toEqual(['b'])
      expect((await store.listItems(created, { limit: 10 })).map(({ text }) => text)).toEqual([
        '{"id":"c","n":1}',
        '{"id":"a","n":0}',
        '{"id":"d","n":0}',
        '{"id":"b","n":0}',
      ])
    })

    it('a page of items or blocks stops growing when it is long enough, and never comes empty', async () => {
      await open()
      const half = 'x'.repeat(PAGE_CHARACTERS / 2)
      await appendEntries(store, [entry.createDb('fruit')])
      for (const id of ['a', 'b', 'c'])
        await appendEntries(store, [entry.create('fruit', id, half + half)])
      expect(await store.listItems(0, { limit: 10 })).toHaveLength(1)
      expect(await store.blocks(serverid, 1, 10)).toHaveLength(1)
      expect(await store.blocks(serverid, 0, 10)).toHaveLength(2)
    })

    it('a database of a deleted name is another one; the items of the old one go piece by piece', async () => {
      await open()
      const many = Array.from({ length: 1_200 }, (_, n) => entry.create('fruit', `${n}`))
      await appendEntries(store, [entry.createDb('fruit'), ...many])
      await appendEntries(store, [
        entry.deleteDb('fruit'),
        entry.createDb('fruit'),
        entry.create('fruit', '7', 'mine'),
      ])
      expect(await store.countItems(packPosition(1, 1))).toBe(1)
      expect((await store.item('fruit', '7'))?.text).toBe('{"id":"7","n":"mine"}')
      expect(await store.item('fruit', '8')).toBeNull()
      expect(await store.droppedDatabases()).toEqual([0])
      await reopen()
      let pieces = 0
      while (await store.tidy()) pieces += 1
      expect(pieces).toBeGreaterThan(1)
      expect(await store.countItems(0)).toBe(0)
      expect(await store.droppedDatabases()).toEqual([])
      expect((await store.item('fruit', '7'))?.text).toBe('{"id":"7","n":"mine"}')
    })

    it('blocks appended together become durable together, or none of them', async () => {
      await open()
      await appendEntries(store, [entry.createDb('fruit')])
      await store.together(async () => {
        await appendEntries(store, [entry.create('fruit', 'a')])
        await appendEntries(store, [entry.create('fruit', 'b'), entry.update('fruit', 'a')])
      })
      const before = await store.head(serverid)
      expect(before?.height).toBe(2)
      const refused = store.together(async () => {
        await appendEntries(store, [entry.createDb('veg'), entry.create('fruit', 'c')])
        await appendEntries(store, [entry.create('fruit', 'd'), entry.create('fruit', 'a')])
      })
      await expect(refused).rejects.toMatchObject({
        code: 'EFFECT_IMPOSSIBLE',
        position: packPosition(4, 1),
        message: 'create_item does not fit item a of fruit',
      })
      const left = store.together(async () => {
        await appendEntries(store, [entry.create('fruit', 'e')])
        throw new Error('changed my mind')
      })
      await expect(left).rejects.toThrow('changed my mind')
      await expectLasting(async (now) => {
        expect(await now.head(serverid)).toEqual(before)
        expect(await now.databases()).toHaveLength(1)
        expect(await now.countItems(0)).toBe(2)
      })
      await appendEntries(store, [entry.createDb('veg'), entry.create('veg', 'c')])
      expect((await store.head(serverid))?.height).toBe(3)
    })

    it('counts the entries of blocks, and tells the room it takes', async () => {
      await open()
      const reader = await under.read()
      expect(await reader.countEntries(serverid, 0, 9)).toBe(0)
      await appendEntries(store, [entry.createDb('fruit')])
      await appendEntries(store, [entry.create('fruit', 'a'), entry.create('fruit', 'b')])
      reader.refresh()
      expect(await reader.countEntries(serverid, 0, 9)).toBe(3)
      expect(await reader.countEntries(serverid, 1, 2)).toBe(2)
      expect(await reader.countEntries(serverid, 2, 9)).toBe(0)
      expect(await reader.countEntries(serverid + 1, 0, 9)).toBe(0)
      const { fileBytes, logBytes } = await reader.room()
      expect(fileBytes + logBytes).toBeGreaterThan(0)
      await reader.close()
    })

    it('tells the history of an item in both orders and page by page, also of a deleted one', async () => {
      await open()
      await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a', 'one')], 10)
      await appendEntries(store, [entry.create('fruit', 'b')], 20)
      await appendEntries(
        store,
        [entry.update('fruit', 'a', 'two'), entry.update('fruit', 'a', 'three')],
        30,
      )
      await appendEntries(store, [entry.remove('fruit', 'a')], 40)
      const at = packPosition
      const told = [
        [at(0, 1), 10, 'create_item', '{"id":"a","n":"one"}'],
        [at(2, 0), 30, 'update_item', '{"id":"a","n":"two"}'],
        [at(2, 1), 30, 'update_item', '{"id":"a","n":"three"}'],
        [at(3, 0), 40, 'delete_item', null],
      ]
      const history = async (from: StoreReader, id: string, range: Partial<RevisionRange> = {}) =>
        (await from.revisions(at(0, 0), id, { newestFirst: false, limit: 10, ...range })).map(
          ({ position, timestamp, kind, text }) => [position, timestamp, kind, text],
        )
      await expectLasting(async (now) => {
        expect(await history(now, 'a')).toEqual(told)
        expect(await history(now, 'a', { newestFirst: true })).toEqual([...told].reverse())
        expect(await history(now, 'a', { after: at(0, 1), limit: 2 })).toEqual(told.slice(1, 3))
        const older = { newestFirst: true, after: at(2, 1), limit: 1 }
        expect(await history(now, 'a', older)).toEqual(told.slice(1, 2))
        expect(await history(now, 'a', { after: at(3, 0) })).toEqual([])
        expect(await history(now, 'b')).toEqual([[at(1, 0), 20, 'create_item', '{"id":"b","n":0}']])
        expect(await history(now, 'nothing')).toEqual([])
        expect(await now.countSuperseded(at(0, 0))).toBe(4)
        expect(await now.isSuperseded(at(0, 0), 'a', at(2, 1))).toBe(true)
        expect(await now.isSuperseded(at(0, 0), 'b', at(1, 0))).toBe(false)
      })
      await appendEntries(store, [entry.create('fruit', 'a', 'again')], 50)
      expect(await history(store, 'a')).toEqual([
        ...told,
        [at(4, 0), 50, 'create_item', '{"id":"a","n":"again"}'],
      ])
    })

    it('a page of a history is bounded by what had to be read for it, and never comes empty', async () => {
      await open()
      const long = 'x'.repeat(PAGE_CHARACTERS)
      await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
      for (const n of [1, 2]) {
        const beside = entry.create('fruit', `beside ${n}`, long)
        await appendEntries(store, [entry.update('fruit', 'a', n), beside])
      }
      const range = { newestFirst: true, limit: 10 }
      expect(await store.revisions(0, 'a', range)).toHaveLength(1)
    })

    it('the history of a deleted database goes with its items, piece by piece', async () => {
      await open()
      const many = Array.from({ length: 600 }, (_, n) => entry.update('fruit', 'a', n))
      await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a'), ...many])
      await appendEntries(store, [entry.deleteDb('fruit'), entry.createDb('fruit')])
      await appendEntries(store, [entry.create('fruit', 'a'), entry.update('fruit', 'a')])
      expect(await store.countSuperseded(0)).toBe(600)
      await store.tidy()
      expect([await store.countSuperseded(0), await store.droppedDatabases()]).toEqual([100, [0]])
      while (await store.tidy());
      expect([await store.countSuperseded(0), await store.droppedDatabases()]).toEqual([0, []])
      expect(await store.countSuperseded(packPosition(1, 1))).toBe(1)
    })

    it('keeps answers with their block, and lets go of them piece by piece when their time is over', async () => {
      await open()
      const key = (n: number) => `${n}`.padStart(64, '0')
      const answer = (n: number, index: number): NewAnswer => ({
        key: key(n),
        fingerprint: key(n + 1),
        index,
        entries: 1,
      })
      const items = Array.from({ length: 1_200 }, (_, n) => entry.create('fruit', `${n}`))
      const answers = items.map((_, n) => answer(n, n + 1))
      await appendEntries(store, [entry.createDb('fruit'), ...items], 1_000, answers)
      await expectLasting(async (now) => {
        expect(await now.keptAnswer(key(7))).toEqual({
          position: packPosition(0, 8),
          key: key(7),
          fingerprint: key(8),
          entries: 1,
          timestamp: 1_000,
          digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        })
        expect(await now.keptAnswer(key(5_000))).toBeNull()
        expect(await now.keptAnswers(packPosition(0, 3), 2)).toMatchObject([
          { key: key(3) },
          { key: key(4) },
        ])
      })
      // Nothing of a refused append.
      const refused = appendEntries(store, [entry.createDb('fruit')], 2_000, [answer(9_000, 0)])
      await expect(refused).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
      expect(await store.keptAnswer(key(9_000))).toBeNull()
      // One millisecond before their time.
      await appendEntries(store, [entry.createDb('veg')], 1_000 + ANSWERS_KEPT_MS - 1)
      expect(await store.tidy()).toBe(false)
      expect(await store.keptAnswer(key(7))).not.toBeNull()
      // A key that is used again is kept anew.
      await appendEntries(store, [entry.createDb('a')], 1_000 + ANSWERS_KEPT_MS, [answer(7, 0)])
      let pieces = 1
      while (await store.tidy()) pieces += 1
      expect(pieces).toBe(3)
      expect(await store.keptAnswers(-1, 5)).toMatchObject([
        { key: key(7), position: packPosition(2, 0) },
      ])
    })

    it('a reader sees every append from its next refresh on, and only what was appended', async () => {
      await open()
      const reader = await under.read()
      await appendEntries(store, [entry.createDb('fruit')])
      reader.refresh()
      expect(await reader.databases()).toHaveLength(1)
      await appendEntries(store, [entry.create('fruit', 'a')])
      reader.refresh()
      expect((await reader.item('fruit', 'a'))?.id).toBe('a')
      expect(reader.serverId).toBe(serverid)
      await reader.close()
    })

    describe('attachments', () => {
      const named = async (now: StoreReader, id: string) =>
        (await now.attachments.list('fruit', id, { limit: 10 })).map(({ name }) => name)

      it('are what the entries about them leave, by name, also when it is opened again', async () => {
        await open()
        await appendEntries(store, [
          entry.createDb('fruit'),
          entry.create('fruit', 'a'),
          entry.attach('fruit', 'a', 'b', 'one'),
          entry.attach('fruit', 'a', 'a', 'one'),
          entry.attach('fruit', 'a', 'c', 'two'),
        ])
        await appendEntries(store, [
          entry.attach('fruit', 'a', 'b', 'three'),
          entry.detach('fruit', 'a', 'c', 'two'),
        ])
        await expectLasting(async (now) => {
          const { attachments } = now
          expect(await named(now, 'a')).toEqual(['a', 'b'])
          expect(await attachments.list('fruit', 'a', { limit: 1, offset: 1 })).toEqual([
            { ...attachmentMadeOf('b', 'three'), position: packPosition(1, 0) },
          ])
          expect(await attachments.list('fruit', 'a', { after: 'a', limit: 5 })).toHaveLength(1)
          expect(await attachments.current('fruit', 'a', 'c')).toBeNull()
          expect(await attachments.current('fruit', 'x', 'a')).toBeNull()
          expect(await attachments.current('nuts', 'a', 'a')).toBeNull()
          // Contents stay named by the entries that were.
          expect(await attachments.countContents()).toEqual({ contents: 3, bytes: 11 })
          expect(await attachments.namedAt(attachmentMadeOf('', 'one').sha256)).toBe(2)
          expect(await attachments.namedAt(attachmentMadeOf('', 'two').sha256)).toBe(4)
          expect(await attachments.namedAt(attachmentMadeOf('', 'four').sha256)).toBeNull()
        })
      })

      it('go with their item and their database, and are not those of a later one', async () => {
        await open()
        const made = [entry.create('fruit', 'a'), entry.attach('fruit', 'a', 'n', 'x')]
        await appendEntries(store, [entry.createDb('fruit'), ...made])
        await appendEntries(store, [entry.remove('fruit', 'a')])
        expect(await named(store, 'a')).toEqual([])
        await appendEntries(store, [entry.create('fruit', 'a')])
        expect(await named(store, 'a')).toEqual([])
        await appendEntries(store, [entry.attach('fruit', 'a', 'n', 'y')])
        expect(await named(store, 'a')).toEqual(['n'])
        await appendEntries(store, [entry.deleteDb('fruit')])
        await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
        await expectLasting(async (now) => expect(await named(now, 'a')).toEqual([]))
      })

      it('do not fit an item that is not there, nor can one be deleted that is not', async () => {
        await open()
        await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
        for (const wrong of [
          entry.attach('fruit', 'b', 'n', 'x'),
          entry.detach('fruit', 'a', 'n', 'x'),
          entry.attach('nuts', 'a', 'n', 'x'),
        ]) {
          await expect(appendEntries(store, [wrong])).rejects.toMatchObject({
            code: 'EFFECT_IMPOSSIBLE',
          })
        }
        expect((await store.head(serverid))?.height).toBe(0)
      })

      it('are forgotten when their entries are erased, and not while an item holds them', async () => {
        await open()
        await appendEntries(store, [
          entry.createDb('fruit'),
          entry.create('fruit', 'a'),
          entry.attach('fruit', 'a', 'n', 'one'),
          entry.attach('fruit', 'a', 'n', 'two'),
        ])
        for (const wrong of [['0.3'], ['0.2', '0.3'], ['0.0'], ['7.0']]) {
          const refused = appendEntries(store, [entry.erase('fruit', 'a', wrong)])
          await expect(refused).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
        }
        await appendEntries(store, [entry.erase('fruit', 'a', ['0.2'])])
        await expectLasting(async (now) => {
          const { attachments } = now
          expect(await attachments.at(2)).toBeNull()
          expect(await attachments.at(3)).toMatchObject({ id: 'a', name: 'n', ended: null })
          expect(await attachments.namedAt(attachmentMadeOf('', 'one').sha256)).toBeNull()
          expect(await attachments.ofItem(0, 'a', 5)).toMatchObject([{ position: 3 }])
          expect(await named(now, 'a')).toEqual(['n'])
          const [block] = await now.blocks(serverid, 0, 1)
          expect(JSON.parse(block?.entries[2] ?? '')).toEqual({
            ...{ serverid, method: 'create_attachment', db: 'fruit', id: 'a' },
            attachment: {},
          })
          expect(await now.eraser(2)).toBe(packPosition(1, 0))
        })
        const last = entry.detach('fruit', 'a', 'n', 'two')
        await appendEntries(store, [last])
        const { sha256 } = attachmentMadeOf('n', 'two')
        expect(await store.attachments.endedBy(packPosition(2, 0), sha256)).toBe(3)
        await appendEntries(store, [entry.erase('fruit', 'a', ['0.3', '2.0'])])
        expect(await store.attachments.countContents()).toEqual({ contents: 0, bytes: 0 })
      })
    })
  })
}

/** Bytes compare as hex, whichever kind of array they are in. */
function plain(block: Block | undefined) {
  if (block === undefined) return null
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  return { ...block, blinds: hex(block.blinds), commitments: hex(block.commitments) }
}

function strayBlock(beside: Block): Block {
  return sealBlock(null, {
    serverId: beside.serverId,
    entries: ['{"db":"stray","method":"create_db","serverid":4126}'],
    timestamps: [1],
    blinds: Buffer.alloc(HASH_BYTES),
  })
}

import { describe, expect, it } from 'vitest'
import { packPosition } from '../../chain/index.ts'
import {
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type NewIdempotencyRecord,
  PAGE_CHARACTERS,
  type RevisionRange,
  type StoreReader,
} from '../port/store.ts'
import {
  appendEntries,
  CONTRACT_SERVER_ID,
  entry,
  StoreStage,
  type StoreUnderTest,
  textAttachment,
} from './test-store.ts'

const serverid = CONTRACT_SERVER_ID

/** Tests the guarantees of every engine for histories, idempotency records and attachments. */
export function describeRecords(name: string, make: () => StoreUnderTest): void {
  describe(`records on ${name}`, () => {
    const stage = new StoreStage(make)

    it('lists the history of an item in both orders, page by page, even of a deleted item', async () => {
      await stage.open()
      await appendEntries(
        stage.store,
        [entry.createDb('fruit'), entry.create('fruit', 'a', 'one')],
        10,
      )
      await appendEntries(stage.store, [entry.create('fruit', 'b')], 20)
      await appendEntries(
        stage.store,
        [entry.update('fruit', 'a', 'two'), entry.update('fruit', 'a', 'three')],
        30,
      )
      await appendEntries(stage.store, [entry.remove('fruit', 'a')], 40)
      const at = packPosition
      const texts = [
        [at(0, 1), 10, 'create_item', '{"id":"a","n":"one"}'],
        [at(2, 0), 30, 'update_item', '{"id":"a","n":"two"}'],
        [at(2, 1), 30, 'update_item', '{"id":"a","n":"three"}'],
        [at(3, 0), 40, 'delete_item', null],
      ]
      const history = async (from: StoreReader, id: string, range: Partial<RevisionRange> = {}) =>
        (await from.revisions(at(0, 0), id, { newestFirst: false, limit: 10, ...range })).map(
          ({ position, timestamp, kind, text }) => [position, timestamp, kind, text],
        )
      await stage.expectDurable(async (now) => {
        expect(await history(now, 'a')).toEqual(texts)
        expect(await history(now, 'a', { newestFirst: true })).toEqual([...texts].reverse())
        expect(await history(now, 'a', { after: at(0, 1), limit: 2 })).toEqual(texts.slice(1, 3))
        const older = { newestFirst: true, after: at(2, 1), limit: 1 }
        expect(await history(now, 'a', older)).toEqual(texts.slice(1, 2))
        expect(await history(now, 'a', { after: at(3, 0) })).toEqual([])
        expect(await history(now, 'b')).toEqual([[at(1, 0), 20, 'create_item', '{"id":"b","n":0}']])
        expect(await history(now, 'nothing')).toEqual([])
        expect(await now.countSuperseded(at(0, 0))).toBe(4)
        expect(await now.hasRevision(at(0, 0), 'a', at(2, 1))).toBe(true)
        expect(await now.hasRevision(at(0, 0), 'b', at(1, 0))).toBe(true)
        expect(await now.hasRevision(at(0, 0), 'b', at(2, 1))).toBe(false)
      })
      await appendEntries(stage.store, [entry.create('fruit', 'a', 'again')], 50)
      expect(await history(stage.store, 'a')).toEqual([
        ...texts,
        [at(4, 0), 50, 'create_item', '{"id":"a","n":"again"}'],
      ])
    })

    it('limits a page of a history by the length of the blocks that are read for it, but returns at least one revision', async () => {
      await stage.open()
      const long = 'x'.repeat(PAGE_CHARACTERS)
      await appendEntries(stage.store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
      for (const n of [1, 2]) {
        const beside = entry.create('fruit', `beside ${n}`, long)
        await appendEntries(stage.store, [entry.update('fruit', 'a', n), beside])
      }
      const range = { newestFirst: true, limit: 10 }
      expect(await stage.store.revisions(0, 'a', range)).toHaveLength(1)
    })

    it('keeps the whole history of the items of a deleted database', async () => {
      await stage.open()
      const many = Array.from({ length: 600 }, (_, n) => entry.create('fruit', `${n}`))
      await appendEntries(stage.store, [
        entry.createDb('fruit'),
        entry.create('fruit', 'a', 'one'),
        entry.update('fruit', 'a', 'two'),
        ...many,
      ])
      await appendEntries(stage.store, [entry.deleteDb('fruit'), entry.createDb('fruit')])
      await appendEntries(stage.store, [entry.create('fruit', 'a'), entry.update('fruit', 'a')])
      const texts = async () => {
        const range = { newestFirst: false, limit: 10 }
        return (await stage.store.revisions(0, 'a', range)).map(({ text }) => text)
      }
      const whole = ['{"id":"a","n":"one"}', '{"id":"a","n":"two"}']
      expect([await stage.store.countSuperseded(0), await texts()]).toEqual([1, whole])
      await stage.store.maintain()
      expect([await stage.store.countSuperseded(0), await texts()]).toEqual([501, whole])
      while (await stage.store.maintain());
      expect([await stage.store.countSuperseded(0), await texts()]).toEqual([602, whole])
      expect(await stage.store.countItems(0)).toBe(0)
      expect(await stage.store.countSuperseded(packPosition(1, 1))).toBe(1)
    })

    it('stores idempotency records with their block, and removes expired records step by step', async () => {
      await stage.open()
      const key = (n: number) => `${n}`.padStart(64, '0')
      const answer = (n: number, index: number): NewIdempotencyRecord => ({
        key: key(n),
        fingerprint: key(n + 1),
        index,
        entries: 1,
      })
      const items = Array.from({ length: 1_200 }, (_, n) => entry.create('fruit', `${n}`))
      const answers = items.map((_, n) => answer(n, n + 1))
      await appendEntries(stage.store, [entry.createDb('fruit'), ...items], 1_000, answers)
      await stage.expectDurable(async (now) => {
        expect(await now.idempotencyRecord(key(7))).toEqual({
          position: packPosition(0, 8),
          key: key(7),
          fingerprint: key(8),
          entries: 1,
          timestamp: 1_000,
          digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        })
        expect(await now.idempotencyRecord(key(5_000))).toBeNull()
        expect(await now.idempotencyRecords(packPosition(0, 3), 2)).toMatchObject([
          { key: key(3) },
          { key: key(4) },
        ])
      })
      // A rejected append stores nothing.
      const refused = appendEntries(stage.store, [entry.createDb('fruit')], 2_000, [
        answer(9_000, 0),
      ])
      await expect(refused).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
      expect(await stage.store.idempotencyRecord(key(9_000))).toBeNull()
      // At this timestamp, no record has expired yet; the records expire one millisecond later.
      await appendEntries(
        stage.store,
        [entry.createDb('veg')],
        1_000 + IDEMPOTENCY_RECORDS_KEPT_MS - 1,
      )
      expect(await stage.store.maintain()).toBe(false)
      expect(await stage.store.idempotencyRecord(key(7))).not.toBeNull()
      // Reusing an expired key stores a new record.
      await appendEntries(stage.store, [entry.createDb('a')], 1_000 + IDEMPOTENCY_RECORDS_KEPT_MS, [
        answer(7, 0),
      ])
      let pieces = 1
      while (await stage.store.maintain()) pieces += 1
      expect(pieces).toBe(3)
      expect(await stage.store.idempotencyRecords(-1, 5)).toMatchObject([
        { key: key(7), position: packPosition(2, 0) },
      ])
    })

    describe('attachments', () => {
      const all = { from: 0, to: Number.MAX_SAFE_INTEGER, limit: 5 }
      const named = async (now: StoreReader, id: string) =>
        (await now.attachments.list('fruit', id, { limit: 10 })).map(({ name }) => name)

      it('attachments are listed by name with the metadata in their entries, even after the store was reopened', async () => {
        await stage.open()
        await appendEntries(stage.store, [
          entry.createDb('fruit'),
          entry.create('fruit', 'a'),
          entry.attach('fruit', 'a', 'b', 'one'),
          entry.attach('fruit', 'a', 'a', 'one'),
          entry.attach('fruit', 'a', 'c', 'two'),
        ])
        await appendEntries(stage.store, [
          entry.attach('fruit', 'a', 'b', 'three'),
          entry.detach('fruit', 'a', 'c', 'two'),
        ])
        await stage.expectDurable(async (now) => {
          const { attachments } = now
          expect(await named(now, 'a')).toEqual(['a', 'b'])
          const former = await attachments.formerOfItem(0, 'a', { created: 1, ...all })
          expect(former).toMatchObject([{ position: 2 }, { position: 4 }])
          const one = { created: 1, from: 2, to: 4, limit: 5 }
          expect(await attachments.formerOfItem(0, 'a', one)).toMatchObject([{ position: 2 }])
          expect(await attachments.list('fruit', 'a', { limit: 1, offset: 1 })).toEqual([
            { ...textAttachment('b', 'three'), position: packPosition(1, 0) },
          ])
          expect(await attachments.list('fruit', 'a', { after: 'a', limit: 5 })).toHaveLength(1)
          expect(await attachments.current('fruit', 'a', 'c')).toBeNull()
          expect(await attachments.current('fruit', 'x', 'a')).toBeNull()
          expect(await attachments.current('nuts', 'a', 'a')).toBeNull()
          // The earlier entries still refer to the blobs.
          expect(await attachments.countBlobs()).toEqual({ blobs: 3, bytes: 11 })
          expect(await attachments.namedAt(textAttachment('', 'one').sha256)).toBe(2)
          expect(await attachments.namedAt(textAttachment('', 'two').sha256)).toBe(4)
          expect(await attachments.namedAt(textAttachment('', 'four').sha256)).toBeNull()
        })
      })

      it('attachments are removed with their item or their database, and a new item or database of the same name has no attachments', async () => {
        await stage.open()
        const made = [entry.create('fruit', 'a'), entry.attach('fruit', 'a', 'n', 'x')]
        await appendEntries(stage.store, [entry.createDb('fruit'), ...made])
        await appendEntries(stage.store, [entry.remove('fruit', 'a')])
        expect(await named(stage.store, 'a')).toEqual([])
        await appendEntries(stage.store, [entry.create('fruit', 'a')])
        expect(await named(stage.store, 'a')).toEqual([])
        await appendEntries(stage.store, [entry.attach('fruit', 'a', 'n', 'y')])
        expect(await named(stage.store, 'a')).toEqual(['n'])
        await appendEntries(stage.store, [entry.deleteDb('fruit')])
        await appendEntries(stage.store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
        await stage.expectDurable(async (now) => expect(await named(now, 'a')).toEqual([]))
      })

      it('attachments cannot be added to a missing item, and cannot be deleted if they do not exist', async () => {
        await stage.open()
        await appendEntries(stage.store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
        for (const wrong of [
          entry.attach('fruit', 'b', 'n', 'x'),
          entry.detach('fruit', 'a', 'n', 'x'),
          entry.attach('nuts', 'a', 'n', 'x'),
        ]) {
          await expect(appendEntries(stage.store, [wrong])).rejects.toMatchObject({
            code: 'EFFECT_IMPOSSIBLE',
          })
        }
        expect((await stage.store.head(serverid))?.height).toBe(0)
      })

      it('attachments are removed when their entries are erased, also if the entry that ended them arrived erased', async () => {
        await stage.open()
        await appendEntries(stage.store, [
          entry.createDb('fruit'),
          entry.create('fruit', 'a'),
          entry.attach('fruit', 'a', 'n', 'one'),
          entry.attach('fruit', 'a', 'n', 'two'),
        ])
        for (const wrong of [['0.1'], ['0.0'], ['7.0']]) {
          const refused = appendEntries(stage.store, [entry.erase('fruit', 'a', wrong)])
          await expect(refused).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
        }
        await appendEntries(stage.store, [entry.erase('fruit', 'a', ['0.2'])])
        await stage.expectDurable(async (now) => {
          const { attachments } = now
          expect(await attachments.at(2)).toBeNull()
          expect(await attachments.at(3)).toMatchObject({ id: 'a', name: 'n', ended: null })
          expect(await attachments.namedAt(textAttachment('', 'one').sha256)).toBeNull()
          expect(await attachments.formerOfItem(0, 'a', { created: 1, ...all })).toEqual([])
          const former = await attachments.formerOfItem(0, 'a', { created: 4, ...all })
          expect(former).toMatchObject([{ position: 3 }])
          expect(await named(now, 'a')).toEqual(['n'])
          const [block] = await now.blocks(serverid, 0, 1)
          expect(JSON.parse(block?.entries[2] ?? '')).toEqual({
            ...{ serverid, method: 'create_attachment', db: 'fruit', id: 'a' },
            attachment: {},
          })
          expect(await now.eraser(2)).toBe(packPosition(1, 0))
        })
        const last = entry.detach('fruit', 'a', 'n', 'two')
        await appendEntries(stage.store, [last])
        const { sha256 } = textAttachment('n', 'two')
        expect(await stage.store.attachments.endedBy(packPosition(2, 0), sha256)).toBe(3)
        await appendEntries(stage.store, [entry.erase('fruit', 'a', ['0.3', '2.0'])])
        expect(await stage.store.attachments.countBlobs()).toEqual({ blobs: 0, bytes: 0 })
        // A mirror that has read the attachment, but not its deletion, reads the deletion without a name.
        await appendEntries(stage.store, [entry.attach('fruit', 'a', 'n', 'three')])
        await appendEntries(stage.store, [entry.erase('fruit', 'a', ['4.0'])])
        expect(await named(stage.store, 'a')).toEqual([])
      })
    })
  })
}

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../base/canonical-json.ts'
import {
  type Block,
  type Entry,
  HASH_BYTES,
  packPosition,
  positionText,
  sealBlock,
  type TreeNode,
  toHead,
} from '../../chain/index.ts'
import { PAGE_CHARACTERS } from '../port/store.ts'
import { verifyStore } from '../verify/verify.ts'
import {
  appendEntries,
  CONTRACT_SERVER_ID,
  entry,
  StoreStage,
  type StoreUnderTest,
} from './test-store.ts'

const serverid = CONTRACT_SERVER_ID

/** Tests the guarantees of every engine for blocks and databases. */
export function describeStore(name: string, make: () => StoreUnderTest): void {
  describe(`a store on ${name}`, () => {
    const stage = new StoreStage(make)

    it('a store is empty at first, without a chain and databases', async () => {
      await stage.open()
      expect(await stage.store.head(serverid)).toBeNull()
      expect(await stage.store.databases()).toEqual([])
      expect(await stage.store.blocks(serverid, 0, 10)).toEqual([])
    })

    it('returns blocks byte for byte, even after reopening', async () => {
      await stage.open()
      const first = await appendEntries(stage.store, [entry.createDb('fruit')], 5)
      const second = await appendEntries(
        stage.store,
        [entry.create('fruit', 'a'), entry.create('fruit', 'ü🍎')],
        7,
      )
      await stage.expectDurable(async (now) => {
        const [one, two, ...more] = await now.blocks(serverid, 0, 10)
        expect(more).toEqual([])
        expect([plain(one), plain(two)]).toEqual([plain(first), plain(second)])
        expect(await now.head(serverid)).toEqual(toHead(second))
        expect(await now.head(serverid + 1)).toBeNull()
        expect((await now.blocks(serverid, 1, 1)).map(({ height }) => height)).toEqual([1])
        expect(await now.blocks(serverid + 1, 0, 1)).toEqual([])
      })
    })

    it('computes the databases of the replay examples, and the erased form of erased entries', async () => {
      const vectors = new URL('../../../test/vectors/replay-v1.json', import.meta.url)
      const { blocks, databases, erased } = JSON.parse(readFileSync(vectors, 'utf8'))
      await stage.open()
      for (const entries of blocks) await appendEntries(stage.store, entries)
      await stage.expectDurable(async (now) => {
        const stored = await now.databases()
        expect(stored.map(({ name }) => name)).toEqual(
          databases.map(({ db }: { db: string }) => db),
        )
        for (const [at, { name, created }] of stored.entries()) {
          const items = await now.listItems(created, { limit: 100 })
          const found = items.map(async ({ id, text }) => {
            const list = await now.attachments.list(name, id, { limit: 100 })
            const attachments = list.map((one) => [one.name, positionText(one.position)])
            return { item: JSON.parse(text), attachments: Object.fromEntries(attachments) }
          })
          expect(await Promise.all(found)).toEqual(databases[at].items)
        }
        const chain = await now.blocks(serverid, 0, 100)
        for (const { height, entries, blinds } of chain) {
          for (const [index, text] of entries.entries()) {
            const remnant = erased[`${height}.${index}`]
            expect(JSON.parse(text)).toEqual(remnant ?? blocks[height][index])
            const blind = blinds.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
            expect(blind.every((byte) => byte === 0)).toBe(remnant !== undefined)
          }
        }
      })
    })

    it('applies every kind of effect', async () => {
      await stage.open()
      await appendEntries(stage.store, [
        entry.createDb('fruit'),
        entry.create('fruit', 'a', 'old'),
        entry.create('fruit', 'b'),
      ])
      await appendEntries(stage.store, [
        entry.update('fruit', 'a', 'new'),
        entry.remove('fruit', 'b'),
        entry.createDb('veg'),
      ])
      await stage.expectDurable(async (now) => {
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
        expect(await now.itemBytes('fruit', 'a')).toBe((await now.item('fruit', 'a'))?.text.length)
        expect(await now.itemBytes('fruit', 'b')).toBeNull()
        expect(await now.item('fruit', 'b')).toBeNull()
        expect(await now.item('nuts', 'a')).toBeNull()
        expect(await now.countItems(packPosition(0, 0))).toBe(1)
      })
    })

    it('rejects a block that does not follow the head, and changes nothing', async () => {
      await stage.open()
      const first = await appendEntries(stage.store, [entry.createDb('fruit')])
      const stray = strayBlock(first)
      await expect(stage.store.append(stray, [])).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      await expect(stage.store.append({ ...first, serverId: 1 }, [])).rejects.toMatchObject({
        code: 'HEAD_MOVED',
      })
      await expect(stage.store.append(first, [])).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      // A block of the next height that follows another block.
      const forked = { ...strayBlock(first), height: 1, prevId: '0'.repeat(64) }
      await expect(stage.store.append(forked, [])).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      expect(await stage.store.head(serverid)).toEqual(toHead(first))
    })

    const impossible: [string, Entry[]][] = [
      ['creating a database twice', [entry.createDb('fruit')]],
      ['deleting a missing database', [entry.deleteDb('nuts')]],
      ['creating an item twice', [entry.create('fruit', 'new'), entry.create('fruit', 'a')]],
      [
        'creating an item in a missing database',
        [entry.create('fruit', 'new'), entry.create('nuts', 'a')],
      ],
      ['updating a missing item', [entry.create('fruit', 'new'), entry.update('fruit', 'x')]],
      ['deleting a missing item', [entry.remove('fruit', 'a'), entry.remove('fruit', 'a')]],
      [
        'a valid change before an invalid one',
        [entry.deleteDb('fruit'), entry.createDb('fruit'), entry.update('fruit', 'a')],
      ],
    ]
    it.each(impossible)('rejects %s, and stores nothing of the block', async (_, entries) => {
      await stage.open()
      const before = await appendEntries(stage.store, [
        entry.createDb('fruit'),
        entry.create('fruit', 'a', 'kept'),
      ])
      await expect(appendEntries(stage.store, entries)).rejects.toMatchObject({
        code: 'EFFECT_IMPOSSIBLE',
      })
      const expectUnchanged = async () => {
        expect(await stage.store.head(serverid)).toEqual(toHead(before))
        expect((await stage.store.item('fruit', 'a'))?.text).toBe('{"id":"a","n":"kept"}')
        expect(await stage.store.item('fruit', 'new')).toBeNull()
        expect(await stage.store.databases()).toHaveLength(1)
      }
      await expectUnchanged()
      await stage.reopen()
      await expectUnchanged()
      await appendEntries(stage.store, [entry.update('fruit', 'a'), entry.create('fruit', 'new')])
      expect((await stage.store.item('fruit', 'new'))?.id).toBe('new')
    })

    it('runs an exclusive task with the current head, and stores only the blocks that the task appends', async () => {
      await stage.open()
      const { store } = stage
      expect(await store.exclusive(async (head) => head)).toBeNull()
      const first = await store.exclusive(async (head) => {
        expect(head).toBeNull()
        expect(await store.databases()).toEqual([])
        return appendEntries(store, [entry.createDb('fruit')])
      })
      const failed = store.exclusive(async (head) => {
        expect(head).toEqual(toHead(first))
        await appendEntries(store, [entry.create('gone', 'a')])
      })
      await expect(failed).rejects.toMatchObject({ code: 'EFFECT_IMPOSSIBLE' })
      const left = store.exclusive(async () => {
        throw new Error('changed my mind')
      })
      await expect(left).rejects.toThrow('changed my mind')
      const second = await store.exclusive(() => appendEntries(store, [entry.create('fruit', 'a')]))
      expect(second.prevId).toBe(first.id)
      await stage.expectDurable(async (now) => {
        expect(await now.exclusive(async (head) => head)).toEqual(toHead(second))
        expect((await now.item('fruit', 'a'))?.id).toBe('a')
      })
    })

    it('reads the same within an exclusive task as outside', async () => {
      await stage.open()
      const key = 'aa'.repeat(32)
      const record = { key, fingerprint: 'bb'.repeat(32), index: 1, entries: 1 }
      const made = [entry.createDb('fruit'), entry.create('fruit', 'a'), entry.create('fruit', 'b')]
      await appendEntries(stage.store, made, 1, [record])
      const ids = ['a', 'b', 'a', 'missing']
      const names = [...ids.map((id) => ({ db: 'fruit', id })), { db: 'nuts', id: 'a' }]
      const keys = [key, 'cc'.repeat(32)]
      const read = () =>
        Promise.all([
          ...names.map(({ db, id }) => stage.store.item(db, id)),
          ...keys.map((each) => stage.store.idempotencyRecord(each)),
        ])
      const before = await read()
      expect(before.map((found) => found !== null)).toEqual([
        true,
        true,
        true,
        false,
        false,
        true,
        false,
      ])
      await stage.store.exclusive(async () => {
        expect(await read()).toEqual(before)
        const changes = [entry.update('fruit', 'a', 'new'), entry.remove('fruit', 'b')]
        await appendEntries(stage.store, changes)
      })
      const after = await stage.store.exclusive(read)
      expect(after).toEqual(await read())
      expect(after.slice(0, 2)).toMatchObject([{ text: '{"id":"a","n":"new"}' }, null])
    })

    it('returns large blocks unchanged, erases parts of them, and verifies both', async () => {
      await stage.open()
      const texts = Array.from({ length: 300 }, (_, n) => `${'apple pie '.repeat(5)}台🍎 ${n}`)
      await appendEntries(stage.store, [
        entry.createDb('fruit'),
        ...texts.map((text, n) => entry.create('fruit', `${n}`, text)),
      ])
      await appendEntries(stage.store, [entry.update('fruit', '7')])
      const read = async () => (await stage.store.blocks(serverid, 0, 1))[0]?.entries ?? []
      const before = await read()
      expect(before.slice(1)).toEqual(
        texts.map((text, n) => canonicalJson(entry.create('fruit', `${n}`, text))),
      )
      await appendEntries(stage.store, [entry.erase('fruit', '7', ['0.8'])])
      while (await stage.store.maintain());
      await stage.expectDurable(async (now) => {
        const erased = before.with(8, before[8]?.replace(/,"n":"[^"]*"/, '') ?? '')
        expect((await now.blocks(serverid, 0, 1))[0]?.entries).toEqual(erased)
        const { created } = (await now.database('fruit')) ?? { created: -1 }
        const range = { newestFirst: false, limit: 9 }
        expect(await now.revisions(created, '7', range)).toMatchObject([
          { text: null },
          { text: '{"id":"7","n":1}' },
        ])
        expect((await verifyStore(now)).finding).toBeNull()
      })
    })

    it('returns the existing ids among many, for any ids', async () => {
      await stage.open()
      const ids = ['a', 'A', '"', '\\', '{}', 'é', '\u{1f34e}', 'a,b', 'NULL', '%']
      await appendEntries(stage.store, [
        entry.createDb('fruit'),
        entry.createDb('veg'),
        ...ids.map((id) => entry.create('fruit', id)),
        entry.create('veg', 'other'),
      ])
      const asked = [...ids, 'b', 'other', 'a']
      expect((await stage.store.existingIds('fruit', asked)).toSorted()).toEqual(ids.toSorted())
      expect(await stage.store.existingIds('fruit', [])).toEqual([])
      expect(await stage.store.existingIds('nuts', asked)).toEqual([])
    })

    it('finds nothing by a name with NUL, which texts of PostgreSQL cannot have, and compares it in order', async () => {
      await stage.open()
      await appendEntries(stage.store, [entry.createDb('d')])
      await appendEntries(stage.store, [entry.create('d', 'a'), entry.create('d', 'a!')])
      const { store } = stage
      const { created } = (await store.database('d')) ?? { created: -1 }
      expect(await store.database('d\0')).toBeNull()
      expect(await store.item('d', 'a\0')).toBeNull()
      expect(await store.itemBytes('\0', 'a')).toBeNull()
      expect(await store.attachments.current('d', 'a', '\0')).toBeNull()
      expect(await store.countIds(created, 'a\0', 'b')).toBe(1)
      expect(await store.countIds(created, 'a', 'a\0')).toBe(1)
    })

    it('lists ids in creation order, for any ids and any changes', async () => {
      await stage.open()
      await appendEntries(stage.store, [entry.createDb('other'), entry.createDb('fruit')])
      const { created } = (await stage.store.database('fruit')) ?? { created: -1 }
      await appendEntries(
        stage.store,
        ['c', 'a', 'b', 'd'].map((id) => entry.create('fruit', id)),
      )
      await appendEntries(stage.store, [
        entry.create('other', 'x'),
        entry.update('fruit', 'c'),
        entry.remove('fruit', 'b'),
      ])
      await appendEntries(stage.store, [entry.create('fruit', 'b')])
      const ids = async (range: { after?: number; offset?: number; limit: number }) =>
        (await stage.store.listIds(created, range)).map(({ id }) => id)
      expect(await ids({ limit: 10 })).toEqual(['c', 'a', 'd', 'b'])
      expect(await ids({ limit: 2, offset: 1 })).toEqual(['a', 'd'])
      const after = (await stage.store.item('fruit', 'a'))?.created ?? -1
      expect(await ids({ limit: 10, after })).toEqual(['d', 'b'])
      expect(await ids({ limit: 1, after, offset: 1 })).toEqual(['b'])
      expect((await stage.store.listItems(created, { limit: 10 })).map(({ text }) => text)).toEqual(
        ['{"id":"c","n":1}', '{"id":"a","n":0}', '{"id":"d","n":0}', '{"id":"b","n":0}'],
      )
    })

    it('limits a page of items or blocks by its size, but returns an empty page only after the end', async () => {
      await stage.open()
      const half = 'x'.repeat(PAGE_CHARACTERS / 2)
      await appendEntries(stage.store, [entry.createDb('fruit')])
      for (const id of ['a', 'b', 'c'])
        await appendEntries(stage.store, [entry.create('fruit', id, half + half)])
      expect(await stage.store.listItems(0, { limit: 10 })).toHaveLength(1)
      expect(await stage.store.blocks(serverid, 1, 10)).toHaveLength(1)
      expect(await stage.store.blocks(serverid, 0, 10)).toHaveLength(2)
    })

    it('treats a reused name as a new database, and moves the items of the old database to its history step by step', async () => {
      await stage.open()
      const many = Array.from({ length: 1_200 }, (_, n) => entry.create('fruit', `${n}`))
      await appendEntries(stage.store, [entry.createDb('fruit'), ...many])
      await appendEntries(stage.store, [
        entry.deleteDb('fruit'),
        entry.createDb('fruit'),
        entry.create('fruit', '7', 'mine'),
      ])
      expect(await stage.store.countItems(packPosition(1, 1))).toBe(1)
      expect((await stage.store.item('fruit', '7'))?.text).toBe('{"id":"7","n":"mine"}')
      expect(await stage.store.item('fruit', '8')).toBeNull()
      expect(await stage.store.droppedDatabases()).toEqual([0])
      expect(await stage.store.formerDatabases('fruit')).toEqual([0])
      await stage.reopen()
      let pieces = 0
      while (await stage.store.maintain()) pieces += 1
      expect(pieces).toBeGreaterThan(1)
      expect(await stage.store.countItems(0)).toBe(0)
      expect(await stage.store.droppedDatabases()).toEqual([])
      expect(await stage.store.deletedDatabases()).toEqual([
        { name: 'fruit', created: 0, deleted: expect.any(Number) },
      ])
      expect((await stage.store.item('fruit', '7'))?.text).toBe('{"id":"7","n":"mine"}')
    })

    it('makes either all blocks of a transaction durable, or none of them', async () => {
      await stage.open()
      await appendEntries(stage.store, [entry.createDb('fruit')])
      await stage.store.transaction(async () => {
        await appendEntries(stage.store, [entry.create('fruit', 'a')])
        await appendEntries(stage.store, [entry.create('fruit', 'b'), entry.update('fruit', 'a')])
      })
      const before = await stage.store.head(serverid)
      expect(before?.height).toBe(2)
      const refused = stage.store.transaction(async () => {
        await appendEntries(stage.store, [entry.createDb('veg'), entry.create('fruit', 'c')])
        await appendEntries(stage.store, [entry.create('fruit', 'd'), entry.create('fruit', 'a')])
      })
      await expect(refused).rejects.toMatchObject({
        code: 'EFFECT_IMPOSSIBLE',
        position: packPosition(4, 1),
        message: 'create_item does not apply to item a of fruit',
      })
      const left = stage.store.transaction(async () => {
        await appendEntries(stage.store, [entry.create('fruit', 'e')])
        throw new Error('changed my mind')
      })
      await expect(left).rejects.toThrow('changed my mind')
      await stage.expectDurable(async (now) => {
        expect(await now.head(serverid)).toEqual(before)
        expect(await now.databases()).toHaveLength(1)
        expect(await now.countItems(0)).toBe(2)
      })
      await appendEntries(stage.store, [entry.createDb('veg'), entry.create('veg', 'c')])
      expect((await stage.store.head(serverid))?.height).toBe(3)
    })

    it('counts the entries of blocks, and reports the disk usage', async () => {
      await stage.open()
      const reader = await stage.read()
      expect(await reader.countEntries(serverid, 0, 9)).toBe(0)
      await appendEntries(stage.store, [entry.createDb('fruit')])
      await appendEntries(stage.store, [entry.create('fruit', 'a'), entry.create('fruit', 'b')])
      reader.refresh()
      expect(await reader.countEntries(serverid, 0, 9)).toBe(3)
      expect(await reader.countEntries(serverid, 1, 2)).toBe(2)
      expect(await reader.countEntries(serverid, 2, 9)).toBe(0)
      expect(await reader.countEntries(serverid + 1, 0, 9)).toBe(0)
      const { fileBytes, walBytes } = await reader.diskUsage()
      expect(fileBytes + walBytes).toBeGreaterThan(0)
      await reader.close()
    })

    it('rejects a request for a node of the log that is missing', async () => {
      await stage.open()
      await appendEntries(stage.store, [entry.createDb('fruit')])
      await appendEntries(stage.store, [entry.create('fruit', 'a')])
      const nodes = (...wanted: TreeNode[]) => stage.store.treeNodes(serverid, wanted)
      const [first, root] = await nodes({ level: 0, index: 0 }, { level: 1, index: 0 })
      expect([first?.length, root?.length]).toEqual([HASH_BYTES, HASH_BYTES])
      const missing: TreeNode[] = [
        { level: 0, index: 2 },
        { level: 1, index: 1 },
        { level: 2, index: 0 },
      ]
      for (const node of missing) {
        await expect(nodes({ level: 0, index: 0 }, node)).rejects.toMatchObject({
          code: 'STORE_DAMAGED',
          message: `a node of the log is missing: level ${node.level}, index ${node.index}`,
        })
      }
    })

    it('a reader sees each append after its next refresh, and never a partial append', async () => {
      await stage.open()
      const reader = await stage.read()
      await appendEntries(stage.store, [entry.createDb('fruit')])
      reader.refresh()
      expect(await reader.databases()).toHaveLength(1)
      await appendEntries(stage.store, [entry.create('fruit', 'a')])
      reader.refresh()
      expect((await reader.item('fruit', 'a'))?.id).toBe('a')
      expect(reader.serverId).toBe(serverid)
      await reader.close()
    })
  })
}

/** Converts the bytes of a block to hex, so that blocks with any kind of array can be compared. */
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

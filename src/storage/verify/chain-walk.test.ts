import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { type Entry, packPosition } from '../../chain/index.ts'
import { inCopy } from '../contract/test-copy.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openStore } from '../open.ts'
import type { Store } from '../port/store.ts'
import { ChainWalk, type PlainBlock, plainBlock } from './chain-walk.ts'

const FRUIT = { db: 'fruit', database: packPosition(0, 0) }
const VEG = { db: 'veg', database: packPosition(0, 1) }

let folder: string
let store: Store
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  await appendEntries(store, [entry.createDb('fruit'), entry.createDb('veg')])
})

/** Returns the last block as a plain block, after `entries` were appended. */
async function appendPlainBlock(...entries: Entry[]): Promise<PlainBlock | null> {
  return plainBlock(await appendEntries(store, entries, 1), store)
}

it('treats a block as plain if it only creates items, whatever the items contain', async () => {
  const block = await appendEntries(store, [
    entry.create('fruit', 'a', 7),
    entry.create('fruit', 'ü🍎', 'line\nfeed, "quote" and \u0001'),
    entry.create('fruit', '\u0001"\\', 1e21),
  ])
  expect(await plainBlock(block, store)).toEqual({
    height: 1,
    id: block.id,
    count: 3,
    creations: [{ ...FRUIT, count: 3 }],
  })
})

it('returns for a plain block the number of items in each database', async () => {
  const some = ['a', 'b', 'c'].map((id) => entry.create('veg', id))
  const plain = await appendPlainBlock(
    entry.create('fruit', 'a'),
    ...some,
    entry.create('fruit', 'b'),
  )
  expect(plain?.creations).toEqual([
    { ...FRUIT, count: 2 },
    { ...VEG, count: 3 },
  ])
})

it('does not treat a block with any other entry as plain', async () => {
  await appendEntries(store, [entry.create('fruit', 'a'), entry.create('fruit', 'b')])
  expect(await appendPlainBlock(entry.createDb('nuts'))).toBeNull()
  expect(
    await appendPlainBlock(entry.create('fruit', 'c'), entry.update('fruit', 'a', 1)),
  ).toBeNull()
  expect(await appendPlainBlock(entry.remove('fruit', 'b'), entry.create('fruit', 'b'))).toBeNull()
  expect(await appendPlainBlock(entry.create('fruit', 'd'), entry.remove('fruit', 'd'))).toBeNull()
  expect(await appendPlainBlock(entry.create('fruit', 'e'))).not.toBeNull()
})

it('does not treat a block as plain if one of its items or databases was changed, deleted or erased later', async () => {
  const block = await appendEntries(store, [entry.create('fruit', 'a'), entry.create('veg', 'a')])
  const other = await appendEntries(store, [entry.create('fruit', 'b'), entry.create('fruit', 'c')])
  expect(await plainBlock(block, store)).not.toBeNull()
  expect(await plainBlock(other, store)).not.toBeNull()
  await appendEntries(store, [entry.remove('fruit', 'b')])
  expect(await plainBlock(other, store)).toBeNull()
  await appendEntries(store, [entry.update('fruit', 'a', 1)])
  expect(await plainBlock(block, store)).toBeNull()
})

it('does not treat a block as plain if rows differ from entries, even if their concatenated texts are equal', async () => {
  const block = await appendEntries(store, [entry.create('fruit', 'a'), entry.create('fruit', 'b')])
  await store.close()
  const at = (index: number) => packPosition(1, index)
  const both = "(SELECT replace(group_concat(item, '|'), '|', '') FROM items)"
  const seam = `,"method":"create_item","serverid":${CONTRACT_SERVER_ID}}\n{"db":"fruit","item":`
  const tampering = [
    `UPDATE items SET item = '{"id":"a","n":1}' WHERE created = ${at(0)}`,
    `UPDATE items SET id = 'c' WHERE created = ${at(1)}`,
    `UPDATE items SET id = iif(id = 'a', 'x', 'a'); UPDATE items SET id = 'b' WHERE id = 'x'`,
    `UPDATE items SET revision = 0 WHERE created = ${at(0)}`,
    `UPDATE items SET db = ${VEG.database} WHERE created = ${at(1)}`,
    `UPDATE items SET db = 77 WHERE created = ${at(1)}`,
    `UPDATE items SET created = ${at(2)}, revision = ${at(2)} WHERE created = ${at(1)}`,
    `INSERT INTO items VALUES (${at(2)}, 0, 'c', ${at(2)}, '{"id":"c"}')`,
    `DELETE FROM items WHERE created = ${at(0)}`,
    `DELETE FROM items WHERE created = ${at(1)}`,
    `UPDATE items SET item = ${both} WHERE created = ${at(0)}; DELETE FROM items WHERE created = ${at(1)}`,
    `UPDATE items SET item = (SELECT group_concat(item, '${seam}') FROM items) WHERE created = ${at(0)};
      UPDATE items SET id = 'a' || char(10) || 'b' WHERE created = ${at(0)};
      DELETE FROM items WHERE created = ${at(1)}`,
    `UPDATE items SET item = printf('%.*c', 1000000, 'x') WHERE created = ${at(0)}`,
    `UPDATE databases SET name = 'root' WHERE name = 'fruit'`,
  ]
  for (const sql of tampering) {
    const { path } = inCopy(folder, (copy) => copy.exec(sql))
    const copy = await openStore({ location: path, serverId: CONTRACT_SERVER_ID, durable: false })
    expect([sql, await plainBlock(block, copy)]).toEqual([sql, null])
    await copy.close()
  }
  const { path } = inCopy(folder, () => {})
  store = await openStore({ location: path, serverId: CONTRACT_SERVER_ID, durable: false })
  expect(await plainBlock(block, store)).not.toBeNull()
})

it('does not treat a block as plain if an id contains a newline, or if an entry is not in canonical form', async () => {
  const block = await appendEntries(store, [entry.create('fruit', 'a'), entry.create('fruit', 'b')])
  const [first = '', second = ''] = block.entries
  for (const entries of [
    [first.replace(':', ': '), second],
    ['{"item":{"id":"a"}', second],
    [first.replace('"id":"a"', '"id":1'), second],
    [first.replace('"id":"a"', '"id":"a\\nb"'), second],
  ]) {
    expect([entries, await plainBlock({ ...block, entries }, store)]).toEqual([entries, null])
  }
})

it('reports no difference if another process appends a block while the chain is read', async () => {
  let appends = 1
  const shared = new Proxy(store, {
    get(target, name) {
      if (name === 'treeLeaves' && appends > 0) {
        return async (...args: Parameters<Store['treeLeaves']>) => {
          appends -= 1
          await appendEntries(store, [entry.create('fruit', `a${appends}`)])
          return target.treeLeaves(...args)
        }
      }
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  const walk = await ChainWalk.from(shared, 1)
  expect(await walk.next()).toEqual({ blocks: [], finding: null })
  const { blocks, finding } = await walk.next()
  expect([blocks.map(({ height }) => height), finding]).toEqual([[1], null])
  appends = 2
  expect(await walk.next()).toEqual({ blocks: [], finding: null })
})

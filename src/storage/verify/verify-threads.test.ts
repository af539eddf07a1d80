import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { FILE, inCopy } from '../contract/test-copy.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openStore, openStoreReader } from '../open.ts'
import { type Verification, verifyStore } from './verify.ts'

/** Expects equal results without threads and with three threads; returns the result. */
async function verifiedBothWays(path: string): Promise<Verification> {
  const results: Verification[] = []
  for (const threads of [undefined, { location: path, count: 3 }]) {
    const reader = await openStoreReader(path, { frozen: true })
    results.push(await verifyStore(reader, threads === undefined ? {} : { threads }))
    await reader.close()
  }
  const [alone, together] = results
  if (alone === undefined || together === undefined) throw new Error('there are two')
  expect(together).toEqual(alone)
  return together
}

it('finds the same damage with and without threads, wherever it is', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(store, [entry.createDb('fruit')])
  for (let n = 0; n < 600; n += 1) await appendEntries(store, [entry.create('fruit', `${n}`)], n)
  await store.close()
  expect(await verifiedBothWays(folder)).toMatchObject({
    blocks: 601,
    entries: 601,
    items: 600,
    finding: null,
  })
  const damage: [string, number][] = [
    ["UPDATE blocks SET body = replace(body, 'fruit', 'fruid') WHERE height = 599", 599],
    ["UPDATE items SET item = '{}' WHERE id = '300'", 301],
    [
      `UPDATE items SET item = '{}' WHERE id = '300';
        UPDATE blocks SET nonce = 1 WHERE height = 301`,
      301,
    ],
    [
      `UPDATE items SET item = '{}' WHERE id = '400';
        UPDATE blocks SET nonce = 1 WHERE height = 390`,
      390,
    ],
    ['UPDATE blocks SET height = 9000 WHERE height = 128', 129],
    ['UPDATE tree SET hashes = zeroblob(32) WHERE height = 256', 256],
    ['DELETE FROM blocks WHERE height = 0', 1],
    ['DELETE FROM blocks WHERE height = 600', 600],
    ["UPDATE blocks SET blinds = x'00' WHERE height = 128", 128],
  ]
  for (const [sql, height] of damage) {
    const { path } = inCopy(folder, (copy) => copy.exec(sql))
    const result = await verifiedBothWays(path)
    expect([sql, result.finding?.height]).toEqual([sql, height])
  }
})

it('finds the same damage with and without threads if plain blocks alternate with other blocks', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(store, [entry.createDb('fruit'), entry.createDb('veg')])
  for (let n = 1; n < 120; n += 1) {
    const creations = [entry.create('fruit', `${n}`), entry.create('veg', `${n}`)]
    const also = n % 10 === 3 ? [entry.update('fruit', `${n - 1}`, 'changed')] : []
    const deletion = n % 10 === 6 ? [entry.remove('veg', `${n - 2}`)] : []
    const answers = n % 40 === 8 ? [{ key: `${n}`, fingerprint: 'bb', index: 0, entries: 2 }] : []
    await appendEntries(store, [...creations, ...also, ...deletion], n, answers)
  }
  await appendEntries(store, [entry.erase('fruit', '2', ['2.0'])], 200)
  await appendEntries(store, [entry.create('fruit', 'last')], 201)
  while (await store.maintain());
  await store.close()
  expect(await verifiedBothWays(folder)).toMatchObject({
    blocks: 122,
    entries: 266,
    erased: 1,
    items: 227,
    finding: null,
  })
  // Block 50 only creates items, and 51 follows it; block 53 changes an item, and 54 follows it.
  const at = (height: number, index: number) => height * 16_384 + index
  const damage: [string, number | null][] = [
    ["DELETE FROM items WHERE id = '50' AND item LIKE '%50%'", null],
    [`UPDATE items SET item = '{"id":"50"}' WHERE created = ${at(50, 0)}`, 50],
    [`UPDATE items SET id = 'else' WHERE created = ${at(50, 1)}`, 50],
    [`UPDATE items SET db = 77 WHERE created = ${at(50, 0)}`, 50],
    [`UPDATE items SET revision = ${at(49, 0)} WHERE created = ${at(50, 0)}`, 50],
    [`INSERT INTO items VALUES (${at(50, 2)}, 0, 'x', ${at(50, 2)}, '{"id":"x"}')`, 51],
    [`INSERT INTO items VALUES (${at(53, 9)}, 0, 'x', ${at(53, 9)}, '{"id":"x"}')`, 54],
    [`INSERT INTO items VALUES (${at(130, 0)}, 0, 'x', ${at(130, 0)}, '{"id":"x"}')`, null],
    ["UPDATE answers SET fingerprint = 'cc' WHERE key = '48'", 48],
    ["UPDATE databases SET name = 'root' WHERE name = 'veg'", null],
  ]
  for (const [sql, height] of damage) {
    const { path } = inCopy(folder, (copy) => copy.exec(sql))
    const { finding } = await verifiedBothWays(path)
    expect([sql, finding?.what]).toEqual([sql, expect.any(String)])
    if (height !== null) expect([sql, finding?.height]).toEqual([sql, height])
  }
})

it('finds a damaged page of the file, with and without threads', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(store, [entry.createDb('fruit')])
  for (let n = 0; n < 200; n += 1) await appendEntries(store, [entry.create('fruit', `${n}`)], n)
  await store.close()
  const pages = ['blocks', 'items', 'items_by_id', 'items_in_order'].map(
    (name) =>
      inCopy(folder, (copy) =>
        Number(
          copy.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(name)?.rootpage,
        ),
      ).result,
  )
  for (const page of pages) {
    const { path } = inCopy(folder, () => {})
    const file = openSync(join(path, FILE), 'r+')
    writeSync(file, Buffer.alloc(4_096, 0xa5), 0, 4_096, (page - 1) * 4_096)
    closeSync(file)
    const { finding } = await verifiedBothWays(path)
    expect([page, finding?.what]).toEqual([
      page,
      expect.stringMatching(/^the file (is damaged|of the store cannot be read)/),
    ])
  }
})

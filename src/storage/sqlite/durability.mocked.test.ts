// Simulates sync failures, power cuts and full disks. test/faults/ tests real faults.

import type fs from 'node:fs'
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished, vi } from 'vitest'
import { packPosition } from '../../chain/index.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import type { Store } from '../port/store.ts'

const PAGE_BYTES = 4_096

/** Records the file operations of the modules below: the pages that were written, and the pages that were synced. */
const disk = {
  dirty: new Set<number>(),
  synced: new Set<number>(),
  fail: null as string | null,
  freeBytes: 0,
}

const real = await vi.importActual<typeof fs>('node:fs')
const { openStore, openStoreReader } = await observed(() => import('../open.ts'))

async function observed<Loaded>(load: () => Promise<Loaded>): Promise<Loaded> {
  const isLog = new Map<number, boolean>()
  vi.resetModules()
  vi.doMock('node:fs', () => ({
    ...real,
    openSync: (path: string, flags: string, mode?: number) => {
      const file = real.openSync(path, flags, mode)
      isLog.set(file, path.endsWith('-wal'))
      return file
    },
    writeSync: (file: number, bytes: Buffer, from: number, length: number, at: number) => {
      if (disk.fail === 'write') throw systemError('ENOSPC')
      const written = real.writeSync(file, bytes, from, length, at)
      for (let page = Math.floor(at / PAGE_BYTES); page * PAGE_BYTES < at + written; page += 1)
        if (isLog.get(file)) disk.dirty.add(page)
      return written
    },
    statfsSync: (path: string) => {
      const found = real.statfsSync(path)
      return disk.freeBytes === 0 ? found : { ...found, bavail: disk.freeBytes / found.bsize }
    },
    fsyncSync: (file: number) => {
      if (disk.fail === 'sync') throw systemError('EIO')
      real.fsyncSync(file)
      for (const page of disk.dirty) disk.synced.add(page)
    },
  }))
  try {
    return await load()
  } finally {
    vi.doUnmock('node:fs')
    vi.resetModules()
  }
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: simulated`), { code })
}

function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  disk.dirty.clear()
  disk.synced.clear()
  disk.fail = null
  disk.freeBytes = 0
  return folder
}

const open = (folder: string): Promise<Store> =>
  openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: true })

async function databasesIn(folder: string): Promise<string[]> {
  const reader = await openStoreReader(folder, { frozen: true })
  const names = (await reader.databases()).map(({ name }) => name)
  await reader.close()
  return names
}

/** Copies the files of a store as a killed process leaves them. */
function copyAsKilled(folder: string): string {
  const copy = testFolder()
  for (const name of ['ledger.db', 'ledger.db-wal']) {
    copyFileSync(join(folder, name), join(copy, name))
  }
  return copy
}

it('keeps acknowledged writes through a power cut, even if they follow recovered frames whose sync had failed', async () => {
  const first = testFolder()
  const store = await open(first)
  await appendEntries(store, [entry.createDb('durable')])
  const onDisk = readFileSync(join(first, 'ledger.db-wal'))
  await appendEntries(store, [entry.createDb('failed')])
  // The kernel has the frames of `failed` and treats them as clean, but the disk lacks these frames.
  const folder = copyAsKilled(first)
  await store.close()
  const path = join(folder, 'ledger.db-wal')
  const inMemory = readFileSync(path)

  const next = await open(folder)
  const { synced } = disk
  await appendEntries(next, [entry.createDb('acknowledged')])

  // Simulates the power cut: a page that was not written again has its state on the disk.
  const cut = copyAsKilled(folder)
  const log = readFileSync(join(cut, 'ledger.db-wal'))
  for (let at = 0; at < log.length; at += PAGE_BYTES) {
    const page = [at, at + PAGE_BYTES] as const
    const isAsBefore = log.subarray(...page).equals(inMemory.subarray(...page))
    if (isAsBefore && !synced.has(at / PAGE_BYTES)) onDisk.copy(log, at, ...page)
  }
  writeFileSync(join(cut, 'ledger.db-wal'), log)
  expect(await databasesIn(cut)).toEqual(['durable', 'failed', 'acknowledged'])
  await next.close()
})

it('starts with an empty WAL, with all recovered changes in the database file', async () => {
  const first = testFolder()
  const store = await open(first)
  await appendEntries(store, [entry.createDb('fruit')])
  const folder = copyAsKilled(first)
  await store.close()
  const next = await open(folder)
  expect(readFileSync(join(folder, 'ledger.db-wal')).every((byte) => byte === 0)).toBe(true)
  rmSync(join(copyAsKilled(folder), 'ledger.db-wal'))
  expect(await databasesIn(folder)).toEqual(['fruit'])
  await next.close()
})

it.each(['missing', 'empty'])('keeps the WAL of a store whose file is %s', async (state) => {
  const first = testFolder()
  const store = await open(first)
  await appendEntries(store, [entry.createDb('fruit')])
  const folder = copyAsKilled(first)
  await store.close()
  const path = join(folder, 'ledger.db')
  const file = readFileSync(path)
  if (state === 'missing') rmSync(path)
  else writeFileSync(path, '')
  const opened = [open(folder), openStoreReader(folder, { frozen: false })]
  for (const each of opened) await expect(each).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  writeFileSync(path, file)
  expect(await databasesIn(folder)).toEqual(['fruit'])
})

it('rejects a store whose WAL cannot be synced, and opens it once the WAL can be synced', async () => {
  const first = testFolder()
  const store = await open(first)
  await appendEntries(store, [entry.createDb('fruit')])
  const folder = copyAsKilled(first)
  await store.close()
  disk.fail = 'sync'
  await expect(open(folder)).rejects.toThrow('ledger.db cannot be opened: EIO: simulated')
  disk.fail = null
  await (await open(folder)).close()
  expect(await databasesIn(folder)).toEqual(['fruit'])
})

it('rejects a store with STORE_FULL if the disk has no space for its WAL, and opens it once there is space', async () => {
  const first = testFolder()
  const store = await open(first)
  await appendEntries(store, [entry.createDb('fruit')])
  const folder = copyAsKilled(first)
  await store.close()
  const wal = readFileSync(join(folder, 'ledger.db-wal'))
  disk.fail = 'write'
  await expect(open(folder)).rejects.toThrow('the disk is full')
  expect(readFileSync(join(folder, 'ledger.db-wal')).equals(wal)).toBe(true)
  disk.fail = null
  await (await open(folder)).close()
  expect(await databasesIn(folder)).toEqual(['fruit'])
})

/** Makes the next statement of `store` that begins with `sql` fail. */
function failOnce(store: Store, sql: string, errcode: number): void {
  // Changes the store's own connection, because the engine cannot be made to fail otherwise.
  const { connection } = store as unknown as { connection: DatabaseSync }
  const exec = connection.exec.bind(connection)
  let hasFailed = false
  connection.exec = (text) => {
    if (hasFailed || !text.startsWith(sql)) return exec(text)
    hasFailed = true
    throw Object.assign(new Error('simulated'), { errcode })
  }
}

const SQLITE_FULL = 13
const SQLITE_IOERR_FSYNC = 1_034

it.each(['COMMIT', 'BEGIN'])(
  'writes nothing more after a sync failed in %s, and leaves the WAL for the next start',
  async (sql) => {
    const folder = testFolder()
    const store = await open(folder)
    await appendEntries(store, [entry.createDb('before')])
    failOnce(store, sql, SQLITE_IOERR_FSYNC)
    const failed = { code: 'STORE_FAILED', message: 'the store failed: simulated' }
    await expect(appendEntries(store, [entry.createDb('torn')])).rejects.toMatchObject(failed)
    await expect(appendEntries(store, [entry.createDb('after')])).rejects.toMatchObject(failed)
    await expect(store.addIndex('before', 'n')).rejects.toMatchObject(failed)
    await expect(store.maintain()).rejects.toMatchObject(failed)
    expect(await store.databases()).toMatchObject([{ name: 'before' }])
    await store.close()
    expect(existsSync(join(folder, 'ledger.db-wal'))).toBe(true)

    const next = await open(folder)
    await appendEntries(next, [entry.createDb('after')])
    await next.close()
    expect(existsSync(join(folder, 'ledger.db-wal'))).toBe(false)
    expect(await databasesIn(folder)).toEqual(['before', 'after'])
  },
)

it('continues after a checkpoint failed because the disk was full', async () => {
  const folder = testFolder()
  const store = await open(folder)
  await appendEntries(store, [entry.createDb('d')])
  for (let n = 0; n < 20; n += 1) {
    await appendEntries(store, [entry.create('d', `${n}`, 'x'.repeat(1_000_000))])
  }
  failOnce(store, 'PRAGMA wal_checkpoint(PASSIVE)', SQLITE_FULL)
  const maintenanceResult = () =>
    store.maintain().then(
      () => 'maintained',
      (error: unknown) => error,
    )
  await expect.poll(maintenanceResult).toMatchObject({
    code: 'STORE_FULL',
    message: 'the disk is full',
  })
  await appendEntries(store, [entry.createDb('veg')])
  expect(await maintenanceResult()).toBe('maintained')
  await store.close()
  expect(await databasesIn(folder)).toEqual(['d', 'veg'])
})

it('writes nothing more after a checkpoint failed with a disk error', async () => {
  const folder = testFolder()
  const store = await open(folder)
  await appendEntries(store, [entry.createDb('d')])
  for (let n = 0; n < 20; n += 1) {
    await appendEntries(store, [entry.create('d', `${n}`, 'x'.repeat(1_000_000))])
  }
  failOnce(store, 'PRAGMA wal_checkpoint(PASSIVE)', SQLITE_IOERR_FSYNC)
  const failed = { code: 'STORE_FAILED', message: 'the store failed: simulated' }
  const maintained = () => store.maintain().catch((error: unknown) => error)
  await expect.poll(maintained).toMatchObject(failed)
  await expect(appendEntries(store, [entry.createDb('veg')])).rejects.toMatchObject(failed)
  await store.close()
  expect(existsSync(join(folder, 'ledger.db-wal'))).toBe(true)
  expect(await databasesIn(folder)).toEqual(['d'])
})

it('rewrites the store after an erasure only if two copies fit, and gives the space back if the disk is full nevertheless', async () => {
  const folder = testFolder()
  const store = await open(folder)
  await appendEntries(store, [entry.createDb('d'), entry.create('d', 'a', 'SECRET')])
  await appendEntries(store, [entry.update('d', 'a'), entry.create('d', 'b', 'x'.repeat(2e6))])
  await appendEntries(store, [entry.erase('d', 'a', ['0.1'])])
  const walBytes = () => statSync(join(folder, 'ledger.db-wal')).size
  const before = walBytes()
  disk.freeBytes = 4_096 * 1_024
  await expect(store.maintain()).rejects.toMatchObject({
    code: 'STORE_FULL',
    message: expect.stringMatching(
      /^rewriting the store needs \d+ bytes, but 4194304 bytes are free$/,
    ),
  })
  expect([walBytes(), await store.uncompacted()]).toEqual([before, [packPosition(2, 0)]])
  await appendEntries(store, [entry.create('d', 'c')])
  disk.freeBytes = 0
  failOnce(store, 'VACUUM', SQLITE_FULL)
  await expect(store.maintain()).rejects.toMatchObject({ code: 'STORE_FULL' })
  expect([walBytes(), await store.uncompacted()]).toEqual([0, [packPosition(2, 0)]])
  expect([await store.maintain(), await store.uncompacted()]).toEqual([false, []])
  await store.close()
})

it('removes the entries of removed indexes and the items of deleted databases before it rewrites the file after an erasure', async () => {
  const folder = testFolder()
  const store = await open(folder)
  const others = Array.from({ length: 1_500 }, (_, n) => entry.create('d', `${n}`, `other ${n}`))
  const gone = Array.from({ length: 600 }, (_, n) => entry.create('gone', `${n}`))
  await appendEntries(store, [entry.createDb('d'), ...others, entry.create('d', 'a', 'z SECRET')])
  await appendEntries(store, [entry.createDb('gone'), ...gone, entry.create('gone', 'a', 'SECRET')])
  await store.addIndex('d', 'n')
  while (await store.maintain());
  await store.removeIndex('d', 'n')
  // The secret is at the end of the block, which is compressed.
  const compressed = bodyOfFirstBlock(folder).subarray(-24)
  await appendEntries(store, [entry.update('d', 'a'), entry.deleteDb('gone')])
  await appendEntries(store, [
    entry.erase('d', 'a', ['0.1501']),
    entry.erase('gone', 'a', ['1.601']),
  ])
  while ((await store.uncompacted()).length > 0) await store.maintain()
  // The store is still open, and nothing else is checkpointed.
  for (const name of ['ledger.db', 'ledger.db-wal']) {
    const bytes = readFileSync(join(folder, name))
    expect([name, bytes.includes('SECRET'), bytes.includes(compressed)]).toEqual([
      name,
      false,
      false,
    ])
  }
  expect(await store.damage()).toBeNull()
  await store.close()
})

function bodyOfFirstBlock(folder: string): Buffer {
  const database = new DatabaseSync(join(folder, 'ledger.db'), { readOnly: true })
  const row = database.prepare('SELECT body FROM blocks WHERE height = 0').get()
  database.close()
  return Buffer.from(row?.body as Uint8Array)
}

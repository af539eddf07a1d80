import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { zstdCompressSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import { tamper } from '../../../test/support/tampered.ts'
import { describeFormerItems } from '../contract/former-contract.ts'
import { describeRecords } from '../contract/records-contract.ts'
import { describeSearch } from '../contract/search-contract.ts'
import { describeStore } from '../contract/store-contract.ts'
import { findingIn } from '../contract/test-filled.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { lockFolder } from '../location/folder.ts'
import { openStore, openStoreReader } from '../open.ts'

const serverId = CONTRACT_SERVER_ID
const temporary = () => mkdtempSync(join(tmpdir(), 'daicho-test-'))

const makeStore = () => {
  const folder = temporary()
  return {
    open: () => openStore({ location: folder, serverId, durable: true }),
    read: () => openStoreReader(folder, { frozen: false }),
    remove: () => rmSync(folder, { recursive: true }),
  }
}
describeStore('SQLite', makeStore)
describeRecords('SQLite', makeStore)
describeSearch('SQLite', makeStore)
describeFormerItems('SQLite', makeStore)

function testFolder(): string {
  const folder = temporary()
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const codeOf = async (open: () => unknown) => {
  try {
    await open()
    return 'opened'
  } catch (error) {
    return (error as { code: string }).code
  }
}

it('rejects a file whose schema was changed, and reports the first difference', async () => {
  const changedFolder = testFolder()
  await (await openStore({ location: changedFolder, serverId, durable: true })).close()
  const database = new DatabaseSync(join(changedFolder, 'ledger.db'))
  const schema = database
    .prepare('SELECT type, name, sql FROM sqlite_schema')
    .all()
    .map(({ type, name, sql }) => ({ type, name: String(name), sql: String(sql ?? '') }))
  const columns = database
    .prepare(
      `SELECT m.name AS "table", c.name AS "column" FROM sqlite_schema m
        JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'TEXT'`,
    )
    .all()
  database.close()
  const named = schema.filter(({ sql }) => sql !== '')
  expect(named.length).toBeGreaterThan(15)
  expect(columns.length).toBeGreaterThan(15)

  const edit = (name: string, from: string, to: string) =>
    `PRAGMA writable_schema = ON;
     UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}') WHERE name = '${name}'`
  const changes: [string, string][] = [
    ...named.map(({ type, name }): [string, string] => [
      `DROP ${type} "${name}"`,
      `${type} ${name} is missing`,
    ]),
    ...columns.map(({ table, column }): [string, string] => [
      edit(String(table), `${column} TEXT`, `${column} TEXT COLLATE NOCASE`),
      `table ${table} is defined as`,
    ]),
    ...named.flatMap(({ type, name }): [string, string][] =>
      type === 'table' ? [[edit(name, 'STRICT', ''), `table ${name} is defined as`]] : [],
    ),
    [edit('items_by_id', 'UNIQUE', ''), 'index items_by_id is defined as'],
    ['ALTER TABLE items DROP COLUMN revision', 'table items is defined as'],
    ['ALTER TABLE items ADD COLUMN more TEXT', 'table items is defined as'],
    ['CREATE TABLE copies (text TEXT)', 'table copies does not belong to a store'],
    ['CREATE VIEW texts AS SELECT item FROM items', 'view texts does not belong to a store'],
    ['CREATE INDEX by_text ON items (item)', 'index by_text does not belong to a store'],
    [
      `CREATE TRIGGER copy BEFORE UPDATE ON blocks BEGIN SELECT old.body; END`,
      'trigger copy does not belong to a store',
    ],
  ]
  for (const [change, difference] of changes) {
    const folder = testFolder()
    copyFileSync(join(changedFolder, 'ledger.db'), join(folder, 'ledger.db'))
    tamper(folder, change)
    for (const open of [
      () => openStore({ location: folder, serverId, durable: true }),
      () => openStoreReader(folder, { frozen: false }),
    ]) {
      await expect(open(), change).rejects.toThrow(
        expect.objectContaining({
          code: 'STORE_DAMAGED',
          message: expect.stringContaining(`was changed: ${difference}`),
        }),
      )
    }
  }
})

it('rejects a missing file, and a file of another format, another program or another node', async () => {
  const folder = testFolder()
  expect(await codeOf(() => openStoreReader(folder, { frozen: false }))).toBe('STORE_NOT_FOUND')
  await (await openStore({ location: folder, serverId, durable: true })).close()
  const opening = async () => [
    await codeOf(() => openStore({ location: folder, serverId, durable: true })),
    await codeOf(() => openStoreReader(folder, { frozen: false })),
  ]
  expect(await codeOf(() => openStore({ location: folder, serverId: 5, durable: true }))).toBe(
    'STORE_FOREIGN',
  )
  tamper(folder, 'PRAGMA user_version = 2')
  expect(await opening()).toEqual(['STORE_FORMAT', 'STORE_FORMAT'])
  await expect(openStoreReader(folder, { frozen: false })).rejects.toThrow(
    `${join(folder, 'ledger.db')} has format 2, but this daicho uses format 1: export the chain with the daicho ` +
      'that wrote it, and import the chain with this one',
  )
  tamper(folder, 'PRAGMA user_version = 1; PRAGMA application_id = 1')
  expect(await opening()).toEqual(['STORE_FOREIGN', 'STORE_FOREIGN'])
})

it('commits with a write-ahead log and synchronous FULL', async () => {
  const folder = testFolder()
  const store = await openStore({ location: folder, serverId, durable: true })
  // The pragma is per connection, so this reads it on the store's own connection.
  const { connection } = store as unknown as { connection: DatabaseSync }
  expect(connection.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
  expect(connection.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 2 })
  await store.close()
})

it('makes its files unreadable for other users', async () => {
  const folder = testFolder()
  const store = await openStore({ location: folder, serverId, durable: true })
  await appendEntries(store, [entry.createDb('fruit')])
  for (const name of ['ledger.db', 'ledger.db-wal', 'ledger.db-shm']) {
    expect([name, statSync(join(folder, name)).mode & 0o777]).toEqual([name, 0o600])
  }
  await store.close()
})

it('a frozen reader sees the old state while the writer appends blocks and runs maintenance', async () => {
  const folder = testFolder()
  const store = await openStore({ location: folder, serverId, durable: false })
  await appendEntries(store, [entry.createDb('fruit')])
  const frozen = await openStoreReader(folder, { frozen: true })
  expect(await frozen.databases()).toHaveLength(1)
  await appendEntries(store, [entry.createDb('veg')])
  await store.maintain()
  frozen.refresh()
  expect(await frozen.databases()).toHaveLength(1)
  expect((await frozen.head(serverId))?.height).toBe(0)
  await frozen.close()
  await store.close()
})

// Without this lock, SQLite before 3.53 removes the WAL when another process has read the store.
it.skipIf(!existsSync('/proc/locks'))(
  'keeps the lock of a reader of its process that was opened before the store',
  async () => {
    const folder = testFolder()
    const open = () => openStore({ location: folder, serverId, durable: true })
    await (await open()).close()
    const { ino } = statSync(join(folder, 'ledger.db'))
    const locks = () =>
      readFileSync('/proc/locks', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `))
    const reader = await openStoreReader(folder, { frozen: false })
    onTestFinished(() => reader.close())
    expect(locks()).toHaveLength(1)
    const store = await open()
    onTestFinished(() => store.close())
    expect(locks()).toHaveLength(1)
  },
)

it('locks a folder only once at a time, and removes a temporary folder when its lock is released', async () => {
  const path = testFolder()
  const held = lockFolder(path)
  expect(await codeOf(() => lockFolder(path))).toBe('FOLDER_IN_USE')
  held.release()
  lockFolder(path).release()
  expect(await codeOf(() => lockFolder(join(path, 'ledger.lock', 'below')))).toBe('FOLDER_UNUSABLE')

  const temporary = lockFolder(null)
  expect(temporary.durable).toBe(false)
  expect(await codeOf(() => lockFolder(temporary.path))).toBe('FOLDER_IN_USE')
  temporary.release()
  expect(await codeOf(() => openStoreReader(temporary.path, { frozen: false }))).toBe(
    'STORE_NOT_FOUND',
  )
})

it('reports FOLDER_UNUSABLE, not FOLDER_IN_USE, if the lock file cannot be opened', async () => {
  const path = testFolder()
  mkdirSync(join(path, 'ledger.lock'))
  expect(await codeOf(() => lockFolder(path))).toBe('FOLDER_UNUSABLE')
})

it('reports no damage if the system cannot open another file', async () => {
  const folder = testFolder()
  await (await openStore({ location: folder, serverId, durable: true })).close()
  mkdirSync(join(folder, 'ledger.db-wal'))
  const open = () => openStoreReader(folder, { frozen: true })
  expect(await codeOf(open)).toBe('FOLDER_UNUSABLE')
})

it('finds the WAL of a store whose file is a symbolic link', async () => {
  const [disk, folder] = [testFolder(), testFolder()]
  writeFileSync(join(disk, 'ledger.db'), '')
  writeFileSync(join(disk, 'ledger.db-wal'), 'changes')
  symlinkSync(join(disk, 'ledger.db'), join(folder, 'ledger.db'))
  const open = () => openStore({ location: folder, serverId, durable: true })
  expect(await codeOf(open)).toBe('STORE_DAMAGED')
  expect(readFileSync(join(disk, 'ledger.db-wal'), 'utf8')).toBe('changes')
})

it('stores long blocks compressed, and finds damaged or oversized ones', async () => {
  const folder = testFolder()
  const store = await openStore({ location: folder, serverId, durable: true })
  const text = 'the quick brown fox '.repeat(10)
  const items = Array.from({ length: 1_000 }, (_, n) => entry.create('fruit', `${n}`, text))
  await appendEntries(store, [entry.createDb('fruit'), ...items])
  await store.close()
  const database = new DatabaseSync(join(folder, 'ledger.db'))
  const [row] = database.prepare('SELECT body FROM blocks').all()
  const body = Buffer.from(row?.body as Uint8Array)
  expect(body.length).toBeLessThan(60_000)
  const oversized = zstdCompressSync(Buffer.alloc(2 * 64 * 1024 * 1024))
  for (const damaged of [oversized, body.subarray(0, -9), Buffer.alloc(9), 7]) {
    database.prepare('UPDATE blocks SET body = ?').run(damaged)
    const what = expect.stringContaining('column body has an invalid value')
    expect(await findingIn(folder)).toMatchObject({ what })
  }
  database.prepare('UPDATE blocks SET body = ?').run(body)
  database.close()
  expect(await findingIn(folder)).toBeNull()
})

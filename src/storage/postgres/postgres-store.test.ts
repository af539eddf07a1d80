import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres, type TestDatabase } from '../../../test/postgres/shared.ts'
import { type Block, packPosition } from '../../chain/index.ts'
import { parseFilter } from '../../filter/index.ts'
import { describeFormerItems } from '../contract/former-contract.ts'
import { describeRecords } from '../contract/records-contract.ts'
import { describeSearch } from '../contract/search-contract.ts'
import { describeStore } from '../contract/store-contract.ts'
import { ERASING, fillStore } from '../contract/test-filled.ts'
import {
  appendAfter,
  appendEntries,
  CONTRACT_SERVER_ID,
  entry,
  type StoreUnderTest,
} from '../contract/test-store.ts'
import { openStore, openStoreReader } from '../open.ts'
import type { Store, StoreReader } from '../port/store.ts'
import { effectAt } from '../sql/revisions.ts'
import { Connection, type Queries } from './connection.ts'
import { guarded } from './guards.ts'
import { PostgresReader } from './reader.ts'

const serverId = CONTRACT_SERVER_ID
const postgres = await sharedPostgres()

/** A database with the tables, whose copy takes less time than the creation of tables. */
let template: Promise<TestDatabase> | null = null
afterAll(async () => (await template)?.[Symbol.asyncDispose]())

async function createTemplate(): Promise<TestDatabase> {
  const database = await postgres.newDatabase()
  await (await openStore({ location: database.url, serverId, durable: true })).close()
  return database
}

function makeStore(): StoreUnderTest {
  let database: TestDatabase | null = null
  const location = async () => {
    template ??= createTemplate()
    database ??= await postgres.newDatabase(await template)
    return database.url
  }
  return {
    open: async () => openStore({ location: await location(), serverId, durable: true }),
    read: async () => openStoreReader(await location(), { frozen: false }),
    remove: async () => {
      await database?.[Symbol.asyncDispose]()
    },
  }
}

async function newDatabase(): Promise<string> {
  const database = await postgres.newDatabase()
  onTestFinished(async () => {
    await database[Symbol.asyncDispose]()
  })
  return database.url
}

async function open(location: string): Promise<Store> {
  const store = await openStore({ location, serverId, durable: true })
  onTestFinished(() => store.close())
  return store
}

/** Requires that tasks of two stores run one after another, and that each reads the block of the other. */
async function requireWait(...stores: readonly Store[]): Promise<void> {
  const heights: number[] = []
  const work = (store: Store) =>
    store.exclusive(async (head) => {
      heights.push(head?.height ?? -1)
      await appendAfter(head, store, [entry.createDb(`d${heights.length}`)])
    })
  await Promise.all(stores.map(work))
  await Promise.all(stores.map(work))
  expect(heights).toEqual([-1, 0, 1, 2])
}

async function allBlocks(store: StoreReader): Promise<Block[]> {
  const blocks: Block[] = []
  for (let page = await store.blocks(serverId, 0, 100); page.length > 0; ) {
    blocks.push(...page)
    page = await store.blocks(serverId, blocks.length, 100)
  }
  return blocks
}

describe.skipIf(postgres.missing !== null)(`the engine${postgres.note}`, () => {
  describeStore('PostgreSQL', makeStore)
  describeRecords('PostgreSQL', makeStore)
  describeSearch('PostgreSQL', makeStore)
  describeFormerItems('PostgreSQL', makeStore)

  it('stores the same bytes as the SQLite engine', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    await fillStore(folder, ERASING)
    const [sqlite, copy] = [
      await openStoreReader(folder, { frozen: true }),
      await open(await newDatabase()),
    ]
    onTestFinished(() => sqlite.close())
    for (const block of await allBlocks(sqlite)) {
      const effects = block.entries.map((text, index) =>
        effectAt(text, packPosition(block.height, index)),
      )
      await copy.append(block, effects)
    }
    while (await copy.maintain());
    const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
    const contents = async (store: StoreReader) => ({
      blocks: (await allBlocks(store)).map((block) => ({
        ...block,
        blinds: hex(block.blinds),
        commitments: hex(block.commitments),
      })),
      items: (await store.itemsByCreation(-1, 1_000)).filter(({ database }) => database !== 0),
      attachments: await store.attachments.byPosition(-1, 1_000),
      leaves: (await store.treeLeaves(serverId, 0, 1_000)).map(hex),
      headers: await store.headers(serverId, 0, 1_000),
      databases: await store.databases(),
    })
    expect(await contents(copy)).toEqual(await contents(sqlite))
  })

  it('two stores of one database append alternately, and each sees the databases and indexes of the other', async () => {
    const location = await newDatabase()
    const [one, two] = [await open(location), await open(location)]
    await appendEntries(one, [entry.createDb('fruit'), entry.create('fruit', 'a')])
    await appendEntries(two, [entry.update('fruit', 'a', 'changed')])
    expect(await two.addIndex('fruit', 'n')).toBe('done')
    while (await two.maintain());
    await appendEntries(one, [entry.create('fruit', 'b', 7), entry.deleteDb('fruit')])
    await appendEntries(two, [entry.createDb('fruit'), entry.create('fruit', 'a', 'again')])
    expect(await one.addIndex('fruit', 'n')).toBe('done')
    expect(await two.addIndex('fruit', 'n')).toBe('exists')
    await appendEntries(two, [entry.create('fruit', 'c', 8)])
    for (const store of [one, two]) while (await store.maintain());
    expect(await one.damage()).toBeNull()
    expect((await one.head(serverId))?.height).toBe(4)
    expect((await two.indexes()).map(({ isReady }) => isReady)).toEqual([true])
  })

  it('a store waits while another store runs an exclusive task, and then reads the new head', async () => {
    const location = await newDatabase()
    await requireWait(await open(location), await open(location))
  })

  it('depends neither on settings of the database, nor on a publication or tables in other schemas', async () => {
    const location = await newDatabase()
    const name = new URL(location).pathname.slice(1)
    const settings = {
      array_nulls: 'off',
      default_transaction_isolation: 'repeatable read',
      idle_in_transaction_session_timeout: '20ms',
      quote_all_identifiers: 'on',
      statement_timeout: '20ms',
    }
    const others = [
      'CREATE PUBLICATION everything FOR ALL TABLES; CREATE SCHEMA other',
      'CREATE TABLE other.items AS SELECT 1 AS n UNION ALL SELECT 1',
    ]
    for (const statement of others) await queryOnce(location, statement)
    const invalid = 'CREATE UNIQUE INDEX CONCURRENTLY broken ON other.items (n)'
    await expect(queryOnce(location, invalid)).rejects.toThrow('broken')
    for (const [setting, value] of Object.entries(settings)) {
      await queryOnce(location, `ALTER DATABASE ${name} SET ${setting} = '${value}'`)
    }
    const [one, two] = [await open(location), await open(location)]
    await requireWait(one, two)
    const contents = [entry.createDb('d'), entry.create('d', 'a'), entry.update('d', 'a', 2)]
    await appendEntries(one, [...contents, entry.attach('d', 'a', 'n', 'text')])
    const reading = await openStoreReader(location, { frozen: true })
    expect(await reading.indexes()).toEqual([])
    expect(await one.addIndex('d', 'n')).toBe('done')
    while (await one.maintain());
    const slow = await Connection.open({ url: location, durable: true })
    onTestFinished(() => slow.close())
    await slow.execute('SELECT pg_sleep(0.1)')
    expect(await reading.indexes()).toEqual([])
    await reading.close()
    await appendEntries(one, [entry.erase('d', 'a', ['4.1'])])
    while (await one.maintain());
    await expect.poll(() => one.uncompacted(), { timeout: 20_000 }).toEqual([])
    expect(await one.damage()).toBeNull()
  })

  it('rejects an empty database, and a database of another key, another format or another program', async () => {
    const location = await newDatabase()
    const reading = () => openStoreReader(location, { frozen: false })
    await expect(reading()).rejects.toMatchObject({ code: 'STORE_NOT_FOUND' })
    await open(location)
    await expect(openStore({ location, serverId: 5, durable: true })).rejects.toMatchObject({
      code: 'STORE_FOREIGN',
      message: `the database belongs to server id ${serverId}, but the key belongs to server id 5`,
    })
    await queryOnce(location, 'UPDATE daicho_schema SET version = version + 1')
    await expect(reading()).rejects.toMatchObject({ code: 'STORE_FORMAT' })
    await expect(openStore({ location, serverId, durable: true })).rejects.toMatchObject({
      code: 'STORE_FORMAT',
      message: expect.stringMatching(/^the database has format 2, but this daicho uses format 1: /),
    })
    const foreign = await newDatabase()
    await queryOnce(foreign, 'CREATE TABLE items (id int)')
    await expect(openStore({ location: foreign, serverId, durable: true })).rejects.toMatchObject({
      code: 'STORE_FOREIGN',
    })
    expect(await queryOnce(foreign, 'SELECT * FROM items')).toEqual([])
  })

  it('a search never returns an item that changes during the search and no longer matches', async () => {
    const location = await newDatabase()
    const store = await open(location)
    const created = ['a', 'b'].map((id) => entry.create('fruit', id, 1))
    await appendEntries(store, [entry.createDb('fruit'), ...created])
    await store.addIndex('fruit', 'n')
    while (await store.maintain());
    const connection = await Connection.open({ url: location, durable: true })
    let isChanged = false
    const rows: Queries['rows'] = async (text, values) => {
      const found = await connection.rows(text, values)
      // Changes the item after its position was read from the index, and before the item is read.
      if (!isChanged && text.includes('key = $3')) {
        isChanged = true
        await appendEntries(store, [entry.update('fruit', 'a', 2)])
      }
      return found
    }
    const reader = new PostgresReader(serverId, { rows, script: () => Promise.resolve([]) }, () =>
      connection.close(),
    )
    onTestFinished(() => reader.close())
    const where = parseFilter({ filter: '{"where":{"n":1}}' })?.where ?? null
    const database = (await reader.database('fruit'))?.created ?? -1
    const query = { where, order: [], after: null, offset: 0, limit: null, text: true }
    const found: string[] = []
    for await (const items of (await reader.search(database, query)).pieces) {
      found.push(...items.map(({ id }) => id))
    }
    expect([isChanged, found]).toEqual([true, ['b']])
  })

  it('a search finds all matches if its index is removed after it was chosen', async () => {
    const location = await newDatabase()
    const store = await open(location)
    await appendEntries(store, [
      entry.createDb('fruit'),
      ...['a', 'b', 'c'].map((id, n) => entry.create('fruit', id, n)),
    ])
    await store.addIndex('fruit', 'n')
    while (await store.maintain());
    const connection = await Connection.open({ url: location, durable: true })
    let isRemoved = false
    const rows: Queries['rows'] = async (text, values) => {
      if (!isRemoved && text.includes('FROM index_entries')) {
        isRemoved = true
        await store.removeIndex('fruit', 'n')
        while (await store.maintain());
      }
      return connection.rows(text, values)
    }
    const reader = new PostgresReader(serverId, { rows, script: () => Promise.resolve([]) }, () =>
      connection.close(),
    )
    onTestFinished(() => reader.close())
    const where = parseFilter({ filter: '{"where":{"n":{"inq":[1,2]}}}' })?.where ?? null
    const database = (await reader.database('fruit'))?.created ?? -1
    let count = 0
    for await (const piece of (await reader.count(database, where)).pieces) count += piece
    expect([isRemoved, count]).toEqual([true, 2])
  })

  it('reports the first difference of the schema when it is opened for reading or writing', async () => {
    const location = await newDatabase()
    await (await open(location)).close()
    await queryOnce(location, 'CREATE INDEX more ON items (id)')
    const differs = {
      code: 'STORE_DAMAGED',
      message:
        'the schema of the database was changed: it has an unexpected index more on items btree (id)',
    }
    await expect(openStoreReader(location, { frozen: true })).rejects.toMatchObject(differs)
    await expect(openStore({ location, serverId, durable: true })).rejects.toMatchObject(differs)
  })

  it('several processes may create the tables at once', async () => {
    const location = await newDatabase()
    const stores = await Promise.all([1, 2, 3, 4].map(() => open(location)))
    for (const [at, store] of stores.entries()) {
      await appendEntries(store, [entry.createDb(`d${at}`)])
    }
    expect(await stores[0]?.databases()).toHaveLength(4)
  })

  it('stops writing permanently when an acknowledged block is missing after a reconnect', async () => {
    const location = await newDatabase()
    const store = await open(location)
    await appendEntries(store, [entry.createDb('fruit')])
    await appendEntries(store, [entry.createDb('veg')])
    const lost = await queryOnce(location, 'SELECT * FROM blocks WHERE height = 1')
    await queryOnce(location, 'DELETE FROM blocks WHERE height = 1')
    await queryOnce(location, 'DELETE FROM tree WHERE height = 1')
    const endConnections = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`
    await queryOnce(location, endConnections)
    const refused = { code: 'STORE_ROLLED_BACK', message: expect.stringContaining('block 1 (') }
    await expect(store.exclusive(async () => {})).rejects.toMatchObject(refused)
    expect(lost).toHaveLength(1)
    await expect(store.maintain()).rejects.toMatchObject(refused)
    const reader = await openStoreReader(location, { frozen: false })
    expect((await reader.head(serverId))?.height).toBe(0)
    await reader.close()
  })

  it('stops writing permanently when an acknowledged block was replaced before a reconnect', async () => {
    const location = await newDatabase()
    const store = await open(location)
    await appendEntries(store, [entry.createDb('fruit')])
    await queryOnce(location, `UPDATE blocks SET id = '${'0'.repeat(64)}' WHERE height = 0`)
    const endConnections = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`
    await queryOnce(location, endConnections)
    const refused = { code: 'STORE_ROLLED_BACK', message: expect.stringContaining('differs') }
    await expect(store.exclusive(async () => {})).rejects.toMatchObject(refused)
    await expect(store.maintain()).rejects.toMatchObject(refused)
  })

  it('reads the items of a small database without those of a large one', async () => {
    const location = await newDatabase()
    await open(location)
    const connection = await Connection.open({ url: location, durable: true })
    onTestFinished(() => connection.close())
    const plan = await connection.script(`INSERT INTO items (created, db, id, revision, item)
        SELECT n, CASE WHEN n < 19000 THEN 0 ELSE 7 END, n, n, '{}' FROM generate_series(1, 20000) AS g (n);
      ANALYZE items;
      PREPARE page (int8, int8, int8) AS
        SELECT id FROM items WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3;
      EXPLAIN EXECUTE page (7, 0, 100)`)
    expect(JSON.stringify(plan.at(-1))).toContain('items_in_order')
  })

  it('a frozen reader sees the old state while blocks are appended', async () => {
    const location = await newDatabase()
    const store = await open(location)
    await appendEntries(store, [entry.createDb('fruit')])
    const frozen = await openStoreReader(location, { frozen: true })
    onTestFinished(() => frozen.close())
    expect(await frozen.databases()).toHaveLength(1)
    await appendEntries(store, [entry.createDb('veg')])
    expect(await frozen.databases()).toHaveLength(1)
    expect((await frozen.head(serverId))?.height).toBe(0)
  })

  it('a reader uses at most four connections, and replaces a connection that was closed', async () => {
    const location = await newDatabase()
    const store = await open(location)
    await appendEntries(store, [entry.createDb('fruit'), entry.create('fruit', 'a')])
    await store.close()
    const reader = await openStoreReader(location, { frozen: false })
    onTestFinished(() => reader.close())
    const read = () => Promise.all(Array.from({ length: 200 }, () => reader.item('fruit', 'a')))
    const others = 'datname = current_database() AND pid <> pg_backend_pid()'
    for (let round = 0; round < 3; round += 1) {
      expect(new Set((await read()).map((item) => item?.id))).toEqual(new Set(['a']))
      const [row] = await queryOnce(
        location,
        `SELECT count(*) FROM pg_stat_activity WHERE ${others}`,
      )
      expect(Number(row?.count)).toBeLessThanOrEqual(4)
      await queryOnce(
        location,
        `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE ${others}`,
      )
    }
  })

  it('never includes the password of a URL in an error', async () => {
    const url = new URL(await newDatabase())
    url.password = 'hidden-word'
    url.port = '1'
    const wrong = ['postgres://user:hidden-word@', `${url.href}`, 'postgres://u:hidden-word@[/x']
    for (const location of wrong) {
      const error = await openStoreReader(location, { frozen: false }).catch((thrown) => thrown)
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(`${error.message} ${error.cause} ${error.stack}`).not.toContain('hidden-word')
    }
  })

  it('connects to the first host that is a primary', async () => {
    const url = new URL(await newDatabase())
    const hosts = `127.0.0.1:1,${url.host}`
    const location = url.href.replace(url.host, hosts)
    const store = await open(`${location}?target_session_attrs=read-write`)
    await appendEntries(store, [entry.createDb('fruit')])
    expect(await store.databases()).toHaveLength(1)
  })
})

describe('the checks of a new connection', () => {
  const safe = [160_000, false, 'UTF8', 'on', 'on', 'on', '', 0, '2s']
  const changed = (at: number, value: unknown) => safe.with(at, value as string)

  it('the checks of a new connection accept a server that keeps acknowledged writes', () => {
    expect(guarded(safe, true)).toEqual({ warning: null })
  })

  it.each([
    ['an old version', changed(0, 140_000), 'has version 140000'],
    ['a pooler that drops settings', changed(8, '0'), 'not through a pooler such as PgBouncer'],
    ['a pooler, if the server has its own limit', changed(8, '5s'), 'not through a pooler'],
    ['another encoding', changed(2, 'LATIN1'), 'has encoding LATIN1'],
    ['fsync = off', changed(3, 'off'), 'fsync = off'],
    ['full_page_writes = off', changed(4, 'off'), 'full_page_writes = off'],
    ['synchronous_commit = off', changed(5, 'off'), 'synchronous_commit = off'],
  ])('the checks of a new connection refuse %s', (_, row, message) => {
    expect(() => guarded(row, true)).toThrow(
      expect.objectContaining({ code: 'STORE_UNSAFE', message: expect.stringContaining(message) }),
    )
  })

  it('the checks of a new connection accept a server without durability if the store is temporary', () => {
    expect(guarded(changed(3, 'off'), false)).toEqual({ warning: null })
  })

  it('the checks of a new connection refuse a standby', () => {
    expect(() => guarded(changed(1, true), true)).toThrow('the server is a standby')
  })

  it.each([
    ['standbys that no commit waits for', changed(7, 1), 'synchronous_standby_names is empty'],
    [
      'commits that do not wait for a standby',
      safe.with(6, 's2').with(5, 'local'),
      'synchronous_commit = local',
    ],
  ])('the checks of a new connection warn about %s', (_, row, message) => {
    expect(guarded(row, true).warning).toContain(message)
  })
})

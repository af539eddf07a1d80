import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import { appendEntries, entry, CONTRACT_SERVER_ID as serverId } from '../contract/test-store.ts'
import { openBlobStore, openStore } from '../open.ts'
import type { Store } from '../port/store.ts'
import { Compaction } from './compaction.ts'

const postgres = await sharedPostgres()

/** Reads all files of the tables and of the statistics. Returns a function that lists those with `text`. */
async function scan(url: string): Promise<(text: string) => string[]> {
  await queryOnce(url, 'CHECKPOINT')
  const files = await queryOnce(
    url,
    `SELECT oid::regclass::text AS name, pg_read_binary_file(pg_relation_filepath(oid), true) AS bytes
      FROM pg_class WHERE relfilenode <> 0 OR relname = 'pg_statistic'`,
  )
  return (text) =>
    files.filter(({ bytes }) => (bytes as Buffer)?.includes(text)).map(({ name }) => String(name))
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Markers of the contents that `fill` erases. Others must stay. */
const SECRETS = ['SECRET-old', 'SECRET-toast', 'SECRET-dropped', 'SECRET-file', 'SECRET-index']

/** Opens a store in which an item and its attachment are erased, after its index and a database were removed. */
async function erasing(): Promise<{ url: string; store: Store }> {
  const database = await postgres.newDatabase()
  onTestFinished(() => database[Symbol.asyncDispose]())
  const { url } = database
  const store = await openStore({ location: url, serverId, durable: true })
  onTestFinished(() => store.close())
  await appendEntries(store, [entry.createDb('d'), entry.create('d', 'a', 'SECRET-old')])
  await store.addIndex('d', 'n')
  while (await store.maintain());
  const long = `SECRET-toast ${randomBytes(8_000).toString('hex')}`
  await appendEntries(store, [entry.update('d', 'a', long)])
  await appendEntries(store, [entry.update('d', 'a', 'SECRET-index')])
  await appendEntries(store, [entry.update('d', 'a', 'KEPT')])
  await appendEntries(store, [entry.createDb('gone'), entry.create('gone', 'a', 'SECRET-dropped')])
  const blobs = await openBlobStore(url, store, true)
  const outcome = { isRecorded: () => true, mayBeRecorded: () => false }
  const chunks = async function* () {
    yield Buffer.from('SECRET-file')
  }
  const attach = async () => appendEntries(store, [entry.attach('d', 'a', 'n', 'SECRET-file')])
  await blobs.add(chunks(), attach, outcome)
  await appendEntries(store, [entry.detach('d', 'a', 'n', 'SECRET-file'), entry.deleteDb('gone')])
  await queryOnce(url, 'ANALYZE')
  await store.removeIndex('d', 'n')
  const found = await scan(url)
  for (const secret of SECRETS) expect([secret, found(secret)]).not.toEqual([secret, []])
  const erase = async () => {
    const positions = ['0.1', '1.0', '2.0', '5.0', '6.0']
    await appendEntries(store, [
      entry.erase('d', 'a', positions),
      entry.erase('gone', 'a', ['4.1']),
    ])
    const [row] = await queryOnce(url, 'SELECT sha256 FROM blobs')
    return { result: null, freed: [String(row?.sha256)] }
  }
  await blobs.eraseRows(erase, () => false)
  await blobs.close()
  return { url, store }
}

async function expectErased(url: string): Promise<void> {
  const found = await scan(url)
  for (const secret of SECRETS) expect([secret, found(secret)]).toEqual([secret, []])
  expect(found('KEPT')).not.toEqual([])
}

describe.skipIf(postgres.missing !== null)(`compaction${postgres.note}`, () => {
  it('removes erased content from all files of the tables, also of removed indexes and deleted databases', async () => {
    const { url, store } = await erasing()
    while (await store.maintain());
    await expect.poll(() => store.uncompacted(), { timeout: 20_000 }).toEqual([])
    await expectErased(url)
    expect(await store.damage()).toBeNull()
    await queryOnce(url, 'ANALYZE')
    await expectErased(url)
  })

  it('compaction is continued by another process if the process that erased has ended', async () => {
    const { url, store } = await erasing()
    await store.close()
    const other = await openStore({ location: url, serverId, durable: true })
    onTestFinished(() => other.close())
    while (await other.maintain());
    await expect.poll(() => other.uncompacted(), { timeout: 20_000 }).toEqual([])
    await expectErased(url)
  })

  it('does not delay blocks while ANALYZE holds a table, and waits for transactions that may see the content', async () => {
    const { url, store } = await erasing()
    const analyzing = await connect(url)
    // ANALYZE holds this lock.
    await analyzing.query('BEGIN; LOCK TABLE blocks IN SHARE UPDATE EXCLUSIVE MODE')
    while (await store.maintain());
    for (let n = 0; n < 20; n += 1) {
      await appendEntries(store, [entry.create('d', `${n}`)])
      await store.maintain()
    }
    expect(await store.uncompacted()).toHaveLength(2)
    await analyzing.query('COMMIT')
    await store.close()
    const reading = await connect(url)
    await reading.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
    const uncompacted = () => queryOnce(url, 'SELECT position FROM uncompacted')
    await new Compaction({ url, durable: true }).start()
    expect(await uncompacted()).toHaveLength(2)
    await reading.query('COMMIT')
    await new Compaction({ url, durable: true }).start()
    expect(await uncompacted()).toEqual([])
    await expectErased(url)
  })
})

import pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { sharedPostgres, type TestDatabase } from '../../../test/postgres/shared.ts'
import { IS_THOROUGH } from '../../../test/support/rounds.ts'
import type { Entry } from '../../chain/index.ts'
import { ERASING, fillStore, findingIn } from '../contract/test-filled.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { describeVerify, type FilledStore } from '../contract/verify-contract.ts'
import { openStore, openStoreReader } from '../open.ts'
import { verifyStore } from '../verify/verify.ts'

const postgres = await sharedPostgres()
const serverId = CONTRACT_SERVER_ID

/** Filled databases, which tests copy, by the entries that were added to the others. */
const templates = new Map<string, Promise<TestDatabase>>()
afterAll(async () => {
  for (const template of templates.values()) await (await template)[Symbol.asyncDispose]()
})

async function newDatabase(
  template?: TestDatabase,
): Promise<{ location: string; client: pg.Client }> {
  const database = await postgres.newDatabase(template)
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await database[Symbol.asyncDispose]()
  })
  return { location: database.url, client }
}

async function filled(also: readonly Entry[] = []): Promise<FilledStore & { client: pg.Client }> {
  const key = JSON.stringify(also)
  const template = templates.get(key) ?? makeTemplate(also)
  templates.set(key, template)
  const { location, client } = await newDatabase(await template)
  return { location, client, tamper: async (sql) => void (await client.query(sql)) }
}

async function makeTemplate(also: readonly Entry[]): Promise<TestDatabase> {
  const database = await postgres.newDatabase()
  await fillStore(database.url, also)
  return database
}

/**
 * Changes one bit in the last or first byte of a value. In a number, changes bit 20 or 30, so that the result is not an
 * adjacent number, which could be valid.
 */
function changed(value: unknown, last: boolean): unknown {
  if (typeof value === 'boolean') return !value
  if (typeof value === 'string') {
    // The driver returns the integers of int8 columns as text.
    if (/^-?\d{1,16}$/.test(value)) {
      const bit = last ? 2 ** 20 : 2 ** 30
      const number = Number(value)
      return `${number + (Math.floor(number / bit) % 2 === 0 ? bit : -bit)}`
    }
    const at = last ? value.length - 1 : 0
    const unit = String.fromCharCode(value.charCodeAt(at) ^ 16)
    return value.slice(0, at) + unit + value.slice(at + 1)
  }
  if (!(value instanceof Uint8Array)) return 7
  const at = last ? value.length - 1 : 0
  return Buffer.from(value.map((byte, i) => (i === at ? byte ^ 1 : byte)))
}

describe.skipIf(postgres.missing !== null)(`verification${postgres.note}`, () => {
  describeVerify('PostgreSQL', filled)

  it(`finds one changed value in every column of ${IS_THOROUGH ? 'every row' : 'one row'} of every table`, async () => {
    const { location, client } = await filled(ERASING)
    const { rows: columns } = await client.query<{ table: string; column: string }>(
      `SELECT table_name AS table, column_name AS column FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name <> 'daicho_schema' AND table_name NOT LIKE 'blob%'
          AND table_name NOT IN ('shared_texts', 'vacuum_probe')
        ORDER BY 1, 2`,
    )
    const tables = Map.groupBy(columns, ({ table }) => table)
    expect([...tables.keys()]).toEqual([
      ...['answers', 'attachments', 'blocks', 'databases', 'deleted_databases'],
      ...['deleted_items', 'dropped'],
      ...['erasures', 'index_entries', 'indexes', 'items', 'node', 'superseded', 'tree'],
      'uncompacted',
    ])
    let changes = 0
    for (const [table, ofTable] of tables) {
      const { rows } = await client.query(`SELECT ctid, * FROM ${table}`)
      expect([table, rows.length > 0]).toEqual([table, true])
      // Omits the rows of a deleted database and of its index, because no request can read them.
      const readable = rows.filter(({ db, number }) => {
        if (table === 'items') return db !== '0'
        return table !== 'index_entries' || number !== '1'
      })
      for (const row of IS_THOROUGH ? readable : readable.slice(0, 1)) {
        let ctid = row.ctid
        for (const [at, { column }] of ofTable.entries()) {
          const set = async (value: unknown) => {
            const sql = `UPDATE ${table} SET ${column} = $1 WHERE ctid = $2 RETURNING ctid`
            const updated = await client.query(sql, [value, ctid])
            ctid = updated.rows[0].ctid
          }
          for (const last of IS_THOROUGH ? [true, false] : [at % 2 === 0]) {
            await set(changed(row[column], last))
            const finding = await findingIn(location)
            expect(finding?.what, `${table}.${column} of ${JSON.stringify(row)}`).toMatch(/./)
            await set(row[column])
            changes += 1
          }
        }
      }
    }
    expect(changes).toBeGreaterThan(IS_THOROUGH ? 90 : 45)
    expect(await findingIn(location)).toBeNull()
  })

  it('finds each index of the server that lacks an entry, and reports its name', async () => {
    const { location, client } = await filled(ERASING)
    const { rows } = await client.query<{ name: string; table: string; where: string | null }>(
      `SELECT i.relname AS name, t.relname AS table, pg_get_expr(x.indpred, x.indrelid) AS where
        FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS t ON t.oid = x.indrelid
        WHERE t.relnamespace = 'public'::regnamespace AND t.relname NOT IN ('node', 'shared_texts')`,
    )
    expect(rows.length).toBeGreaterThan(20)
    for (const { name, table, where } of rows) {
      if (table.startsWith('blob')) {
        await client.query(`TRUNCATE ${table}`)
        const upload = "'00000000-0000-0000-0000-000000000000'"
        await client.query(
          {
            blobs: `INSERT INTO blobs VALUES ('${'0'.repeat(64)}', ${upload})`,
            blob_chunks: `INSERT INTO blob_chunks VALUES (${upload}, 0, '')`,
            blob_uploads: `INSERT INTO blob_uploads VALUES (${upload}, '0', true, now())`,
          }[table] ?? '',
        )
      }
      const ready = (is: boolean) =>
        client.query(`UPDATE pg_index SET indisready = $1 WHERE indexrelid = $2::regclass`, [
          is,
          name,
        ])
      await client.query(
        `CREATE TEMP TABLE one AS SELECT * FROM ${table} WHERE ${where ?? true} LIMIT 1`,
      )
      // The server does not add the new row to an index that is not ready.
      await ready(false)
      await client.query(
        `DELETE FROM ${table} WHERE EXISTS (SELECT 1 FROM one WHERE one = ${table})`,
      )
      expect([
        name,
        (await client.query(`INSERT INTO ${table} SELECT * FROM one`)).rowCount,
      ]).toEqual([name, 1])
      await ready(true)
      expect((await findingIn(location))?.what, name).toContain(
        `the index ${name} of the database is damaged: REINDEX it`,
      )
      await client.query(`REINDEX INDEX ${name}; DROP TABLE one`)
    }
    await client.query('TRUNCATE blobs, blob_chunks, blob_uploads')
    expect(await findingIn(location)).toBeNull()
  })

  it('a read after a failed read of one snapshot fails for the same reason', async () => {
    const { location, client } = await filled()
    const reader = await openStoreReader(location, { frozen: true })
    onTestFinished(() => reader.close())
    await client.query('ALTER TABLE tree RENAME TO other')
    const reason = { message: expect.stringContaining('relation "tree" does not exist') }
    await expect(reader.treeLeaves(serverId, 0, 1)).rejects.toMatchObject(reason)
    await expect(reader.databases()).rejects.toMatchObject(reason)
    await expect(reader.fileDamage()).rejects.toMatchObject(reason)
  })

  it('finds the same differences with several threads as with one thread', async () => {
    const { location, client } = await newDatabase()
    const store = await openStore({ location, serverId, durable: false })
    await store.transaction(async () => {
      await appendEntries(store, [entry.createDb('fruit')])
      for (let n = 0; n < 200; n += 1)
        await appendEntries(store, [entry.create('fruit', `${n}`)], n)
    })
    await store.close()
    const verified = async (threads?: { location: string; count: number }) => {
      const reader = await openStoreReader(location, { frozen: true })
      const verification = await verifyStore(reader, threads === undefined ? {} : { threads })
      await reader.close()
      return verification
    }
    const intact = { blocks: 201, entries: 201, items: 200, finding: null }
    expect(await verified({ location, count: 2 })).toMatchObject(intact)
    await client.query(`UPDATE items SET item = '{}' WHERE id = '150'`)
    const alone = await verified()
    expect(alone.finding).toMatchObject({ height: 151, index: 0 })
    expect(await verified({ location, count: 2 })).toEqual(alone)
  })
})

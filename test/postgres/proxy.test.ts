import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { PostgresProxy, type Verdict } from './proxy.ts'
import { queryOnce } from './server.ts'
import { sharedPostgres } from './shared.ts'

const postgres = await sharedPostgres()
/** Finds connections that have not finished an INSERT. When there are none, the server has completed all statements. */
const UNFINISHED = `SELECT query FROM pg_stat_activity WHERE datname = current_database()
  AND pid <> pg_backend_pid() AND NOT (state = 'idle' AND query LIKE 'INSERT%')`

describe.skipIf(postgres.missing !== null)(`the proxy${postgres.note}`, () => {
  /**
   * Inserts a row through a proxy that applies `verdict` to a message. Returns the error of the client, and
   * the rows.
   */
  async function insertThrough(from: 'client' | 'server', type: string, verdict: Verdict) {
    await using database = await postgres.newDatabase()
    await using proxy = await PostgresProxy.start(database.url)
    await queryOnce(proxy.url, 'CREATE TABLE t (n int)')
    const client = new pg.Client({ connectionString: proxy.url, query_timeout: 500 })
    client.on('error', () => {})
    await client.connect()
    proxy.verdict = (message) => {
      return message.from === from && message.type === type ? verdict : 'pass'
    }
    const error = await client.query('INSERT INTO t VALUES (1)').then(() => null, String)
    onTestFinished(() => client.end().catch(() => {}))
    await expect.poll(() => queryOnce(database.url, UNFINISHED)).toEqual([])
    return [error, (await queryOnce(database.url, 'SELECT n FROM t')).length]
  }

  it('forwards all messages by default', async () => {
    expect(await insertThrough('client', 'none', 'pass')).toEqual([null, 1])
  })

  it('the proxy can lose a message and all later messages, or only the later messages', async () => {
    const ended = 'Error: Connection terminated unexpectedly'
    expect(await insertThrough('client', 'Q', 'cut before')).toEqual([ended, 0])
    expect(await insertThrough('client', 'Q', 'cut after')).toEqual([ended, 1])
    expect(await insertThrough('server', 'C', 'cut before')).toEqual([ended, 1])
    expect(await insertThrough('server', 'Z', 'cut after')).toEqual([null, 1])
  })

  it('the proxy can hold messages without closing the connection', async () => {
    expect(await insertThrough('server', 'C', 'hold')).toEqual(['Error: Query read timeout', 1])
  })
})

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { PostgresPrograms } from '../../../test/postgres/programs.ts'
import { PostgresProxy, type Verdict } from '../../../test/postgres/proxy.ts'
import { PostgresServer, queryOnce } from '../../../test/postgres/server.ts'
import { sharedPostgres } from '../../../test/postgres/shared.ts'
import { until } from '../../../test/support/until.ts'
import type { Head } from '../../chain/index.ts'
import { appendAfter, appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import type { Store } from '../port/store.ts'
import { openPostgresReader } from './reader.ts'
import { openPostgresStore } from './store.ts'

/** Number of stores whose connections are cut in parallel. Each store has its own database and mostly waits. */
const LANES = 6
/** Closes all other connections to the database. */
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`
/** Errors after which no part of the block is stored. */
const NOTHING_STORED = ['HEAD_MOVED', 'STORE_FULL', 'STORE_UNAVAILABLE']

const postgres = await sharedPostgres()

/** Appends blocks with one item each, and remembers their outcomes. */
class Writer {
  readonly store: Store
  readonly #name: string
  #count = 0
  /** Outcome of each append by the id of its item: null, or the code of the error. */
  readonly outcomes = new Map<string, string | null>()

  private constructor(store: Store, name: string) {
    this.store = store
    this.#name = name
  }

  static async open(url: string, name: string): Promise<Writer> {
    const store = await openPostgresStore({ url, serverId: CONTRACT_SERVER_ID, durable: true })
    onTestFinished(() => store.close())
    const writer = new Writer(store, name)
    if ((await store.database('fruit')) === null) {
      await appendEntries(store, [entry.createDb('fruit')])
    }
    return writer
  }

  /**
   * Makes the next block begin a transaction (`locked`), or expect that no other process has appended (`alone`).
   */
  async prepare(way: 'locked' | 'alone'): Promise<void> {
    const left = this.store.exclusive(() => Promise.reject(new Error('left')))
    await expect(left).rejects.toThrow('left')
    for (let block = 0; way === 'alone' && block < 2; block += 1) {
      expect(await this.append('blind')).toBeNull()
    }
  }

  /** Appends a block in one transaction, as a node does. Returns null, or the code of the error. */
  async append(way: 'reading' | 'blind' = 'reading'): Promise<string | null> {
    this.#count += 1
    const id = `${this.#name}${this.#count}`
    const work = async (head: Head | null) => {
      if (way === 'reading') {
        // Reads a name that is new each time, so that the store has not cached the result.
        expect(await this.store.database(`no${id}`)).toBeNull()
        expect(await this.store.item('fruit', id)).toBeNull()
      }
      await appendAfter(head, this.store, [entry.create('fruit', id)])
    }
    const code = await this.store.exclusive(work).then(
      () => null,
      (error) => String(error.code ?? error),
    )
    this.outcomes.set(id, code)
    return code
  }

  get acknowledged(): number {
    return [...this.outcomes.values()].filter((code) => code === null).length
  }
}

/**
 * Checks that acknowledged items are stored, that other items are stored at most once, and that the blocks form a
 * chain.
 */
async function expectConsistent(url: string, ...writers: readonly Writer[]): Promise<void> {
  const broken = `SELECT b.height FROM blocks AS b LEFT JOIN blocks AS p ON p.height = b.height - 1
    WHERE b.prev_id IS DISTINCT FROM p.id OR (p.id IS NULL AND b.height > 0)`
  expect(await queryOnce(url, broken)).toEqual([])
  const bodies = (await queryOnce(url, 'SELECT body FROM blocks')).map(({ body }) => String(body))
  const stored = await queryOnce(url, 'SELECT id FROM items')
  const items = new Set(stored.map(({ id }) => id))
  for (const writer of writers) {
    for (const [id, code] of writer.outcomes) {
      const times = bodies.filter((body) => body.includes(`"id":"${id}"`)).length
      expect([id, items.has(id)]).toEqual([id, times === 1])
      if (code === null) expect([id, times]).toEqual([id, 1])
      else if (NOTHING_STORED.includes(code)) expect([id, times]).toEqual([id, 0])
      else expect([id, code, times <= 1]).toEqual([id, 'OUTCOME_UNKNOWN', true])
    }
  }
}

/** Returns the statements that make the server refuse every new item with an error. */
function failing(code: string): string {
  return `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '${code}'; END $$;
    CREATE TRIGGER failing BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION fail()`
}

/** A store behind a proxy, in a new database. */
async function openLane(
  name: string,
): Promise<{ url: string; proxy: PostgresProxy; writer: Writer }> {
  const database = await postgres.newDatabase()
  const proxy = await PostgresProxy.start(database.url)
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })
  const writer = await Writer.open(proxy.url, name)
  // Prepares the statements before any connection is cut.
  for (let warm = 0; warm < 2; warm += 1) expect(await writer.append()).toBeNull()
  return { url: database.url, proxy, writer }
}

describe.skipIf(postgres.missing !== null)(`a store whose connection fails${postgres.note}`, () => {
  it.each([
    ['locked', 'reading'],
    ['alone', 'reading'],
    ['alone', 'blind'],
  ] as const)(
    'loses no acknowledged block and stores no block twice, whichever message of a block is lost (%s, %s)',
    async (prepared, way) => {
      const lanes = await Promise.all(Array.from({ length: LANES }, (_, n) => openLane(`l${n}-`)))
      let messages = 0
      for (const { proxy, writer } of lanes.slice(0, 1)) {
        await writer.prepare(prepared)
        proxy.verdict = () => {
          messages += 1
          return 'pass'
        }
        expect(await writer.append(way)).toBeNull()
        proxy.verdict = () => 'pass'
      }
      const kinds: readonly Verdict[] = ['cut before', 'cut after']
      const cuts = Array.from({ length: messages }, (_, at) =>
        kinds.map((kind) => ({ at, kind })),
      ).flat()
      let made = 0
      const runLane = async ({ proxy, writer }: (typeof lanes)[number]) => {
        for (let cut = cuts.pop(); cut !== undefined; cut = cuts.pop()) {
          const { at, kind } = cut
          await writer.prepare(prepared)
          let passed = 0
          proxy.verdict = () => {
            passed += 1
            if (passed !== at + 1) return 'pass'
            made += 1
            return kind
          }
          await writer.append(way)
          proxy.verdict = () => 'pass'
        }
      }
      await Promise.all(lanes.map(runLane))
      for (const { url, writer } of lanes) await expectConsistent(url, writer)
      expect(messages).toBeGreaterThanOrEqual(way === 'blind' ? 10 : 20)
      expect(made).toBe(2 * messages)
      // Most appends succeed although a message was lost, because the store retries them.
      const acknowledged = lanes.reduce((sum, { writer }) => sum + writer.acknowledged, 0)
      expect(acknowledged).toBeGreaterThan(messages)
    },
  )

  it('appends a block of a process that is alone in one round trip, and one more for each read', async () => {
    const { url, proxy, writer } = await openLane('fast-')
    const roundTrips = async (way: 'reading' | 'blind') => {
      await writer.prepare('alone')
      let count = 0
      proxy.verdict = ({ from, type }) => {
        // The end of a request: a query, or a synchronization.
        if (from === 'client' && (type === 'Q' || type === 'S')) count += 1
        return 'pass'
      }
      expect(await writer.append(way)).toBeNull()
      proxy.verdict = () => 'pass'
      return count
    }
    expect(await roundTrips('blind')).toBe(1)
    // The first of its two reads locks the store.
    expect(await roundTrips('reading')).toBe(3)
    await expectConsistent(url, writer)
  })

  it('rejects a task with HEAD_MOVED if another process has written, and runs the next task on the new state', async () => {
    const { url, writer } = await openLane('first-')
    const other = await Writer.open(url, 'second-')
    const { store } = writer
    const tasks: ((head: Head | null) => Promise<unknown>)[] = [
      (head: Head | null) => appendAfter(head, store, [entry.create('fruit', 'never')]),
      () => store.item('fruit', 'never'),
      async () => 'a refusal that depends on cached state',
    ]
    for (const task of tasks) {
      await writer.prepare('alone')
      expect(await other.append()).toBeNull()
      await expect(store.exclusive(task)).rejects.toMatchObject({ code: 'HEAD_MOVED' })
      expect(await writer.append()).toBeNull()
    }
    await writer.prepare('alone')
    expect(await other.store.addIndex('fruit', 'n')).toBe('done')
    expect(await writer.append('blind')).toBeNull()
    expect(await other.append()).toBeNull()
    while (await store.maintain());
    expect(await store.damage()).toBeNull()
    await expectConsistent(url, writer, other)
  })

  it('reports an unknown outcome if a block that was sent without a lock may still arrive, and is refused later', async () => {
    const { url, proxy, writer } = await openLane('late-')
    await writer.prepare('alone')
    let isSent = false
    proxy.verdict = ({ from, type }) => {
      if (isSent || from !== 'client' || type !== 'S') return 'pass'
      isSent = true
      return 'cut before'
    }
    await queryOnce(url, failing('53100'))
    expect(await writer.append('blind')).toBe('OUTCOME_UNKNOWN')
    await queryOnce(url, 'DROP TRIGGER failing ON items')
    expect([isSent, await writer.append()]).toEqual([true, null])
    await expectConsistent(url, writer)
  })

  it.each([
    ['locked', 'STORE_UNAVAILABLE'],
    // The writer repeats a task that fails with this code.
    ['alone', 'HEAD_MOVED'],
  ] as const)(
    'fails one task (%s), but not the next append, if the connection closes before a read of the task',
    async (way, code) => {
      const { url, writer } = await openLane('read-')
      const { store } = writer
      for (const read of [
        () => store.item('fruit', 'read-1'),
        () => store.database('not-read-before'),
        () => store.head(CONTRACT_SERVER_ID),
      ]) {
        await writer.prepare(way)
        const reading = store.exclusive(async () => {
          await queryOnce(url, TERMINATE)
          return read()
        })
        await expect(reading).rejects.toMatchObject({ code })
        expect(await writer.append()).toBeNull()
      }
      await expectConsistent(url, writer)
    },
  )

  it.each([
    ['the disk of the server is full', '53100', 'STORE_FULL'],
    ['the server has no memory', '53200', 'STORE_UNAVAILABLE'],
    ['an administrator cancels each statement', '57014', 'STORE_UNAVAILABLE'],
    ['the user has lost a privilege', '42501', 'STORE_UNAVAILABLE'],
  ])('stores nothing while %s, and continues afterwards', async (_, code, expected) => {
    const { url, writer } = await openLane(`e${code}-`)
    await queryOnce(url, failing(code))
    expect(await writer.append()).toBe(expected)
    await queryOnce(url, 'DROP TRIGGER failing ON items')
    expect(await writer.append()).toBeNull()
    await expectConsistent(url, writer)
  })

  it('loses no acknowledged block when two processes write and their connections are closed at random', async () => {
    const { url, proxy, writer } = await openLane('one-')
    const other = await Writer.open(proxy.url, 'two-')
    let isDone = false
    const ending = (async () => {
      for (let round = 0; !isDone; round += 1) {
        if (round % 2 === 0) proxy.cutAll()
        else await queryOnce(url, TERMINATE)
        await until('more is acknowledged', nextAcknowledgement([writer, other]))
      }
    })()
    const run = async (one: Writer) => {
      while (one.acknowledged < 30) await one.append()
    }
    await Promise.all([run(writer), run(other)])
    isDone = true
    await ending
    await expectConsistent(url, writer, other)
  })
})

/** Returns a condition that holds once another append is acknowledged, or each writer has 30 acknowledged appends. */
function nextAcknowledgement(writers: readonly Writer[]): () => boolean {
  const sum = () => writers.reduce((total, { acknowledged }) => total + acknowledged, 0)
  const before = sum()
  return () => sum() > before || writers.every(({ acknowledged }) => acknowledged >= 30)
}

describe.skipIf(!postgres.canLaunch)(`a store whose server fails${postgres.note}`, () => {
  let programs: PostgresPrograms
  beforeAll(async () => {
    programs = await postgres.newPrograms()
  })
  afterAll(() => programs?.remove())

  it('continues when the server restarts after a crash', async () => {
    const server = await PostgresServer.create(programs, 'restarted')
    await server.start()
    const writer = await Writer.open(server.url(), 'i')
    for (let round = 0; round < 3; round += 1) {
      const running = Promise.all([server.kill9().then(() => server.start()), writer.append()])
      await running
      expect(await writer.append()).toBeNull()
    }
    await expectConsistent(server.url(), writer)
    await server.stop()
  })

  it('waits for a free connection of the server, and continues', async () => {
    const limits = { max_connections: '8', superuser_reserved_connections: '0' }
    const server = await PostgresServer.create(programs, 'crowded', limits)
    await server.start()
    const writer = await Writer.open(server.url(), 'i')
    const admin = new pg.Client(server.url())
    await admin.connect()
    const others: pg.Client[] = []
    const occupy = async (): Promise<boolean> => {
      const client = new pg.Client(server.url())
      client.on('error', () => {})
      const isConnected = await client.connect().then(
        () => true,
        () => false,
      )
      if (isConnected) others.push(client)
      return isConnected
    }
    while (await occupy());
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'daicho'",
    )
    await until('all connections are occupied', async () => others.length === 7 || (await occupy()))
    while (await occupy());
    expect(await writer.append()).toBe('STORE_UNAVAILABLE')
    await Promise.all(others.map((client) => client.end()))
    expect(await writer.append()).toBeNull()
    await expectConsistent(server.url(), writer)
    await admin.end()
    await server.stop()
  })

  it('does not acknowledge a commit when its wait for a standby is cancelled, in any language and with any settings', async () => {
    const server = await PostgresServer.create(programs, 'alone', { client_min_messages: 'error' })
    await server.start()
    await using proxy = await PostgresProxy.start(server.url())
    // The server names the severity in its language (S), and in English (V).
    proxy.verdict = ({ type, bytes }) => {
      const at = bytes.indexOf('SWARNING')
      if (type === 'N' && at !== -1) bytes.write('SWARNUNG', at)
      return 'pass'
    }
    const writer = await Writer.open(proxy.url, 'i')
    await setStandbys(server, 'missing')
    const appended = writer.append()
    const waiting = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
    const cancelled = new Set<unknown>()
    await until('three waits are cancelled', async () => {
      for (const { pid } of await server.query(waiting)) {
        await server.query('SELECT pg_cancel_backend($1)', [pid])
        cancelled.add(pid)
      }
      return cancelled.size >= 3
    })
    expect(writer.outcomes.size).toBe(0)
    await setStandbys(server, '')
    expect(await appended).toBeNull()
    await expectConsistent(server.url(), writer)
    await server.stop()
  })

  it('does not reconnect to a former primary that has started again', async () => {
    const first = await PostgresServer.create(programs, 'former-1')
    const second = await PostgresServer.createStandby(first, { folder: 'former-2', name: 's2' })
    await Promise.all([first.start(), second.start()])
    await setStandbys(first, 'ANY 1 (s2)')
    const writer = await Writer.open(urlOf(first, second), 'i')
    const reader = await openPostgresReader({ url: urlOf(first, second), frozen: false })
    onTestFinished(() => reader.close())
    expect(await writer.append()).toBeNull()
    await first.kill9()
    await second.promote({ synchronous_standby_names: '' })
    expect(await writer.append()).toBeNull()
    const height = async () => (await reader.head(CONTRACT_SERVER_ID))?.height
    expect(await height()).toBe(2)
    await first.start()
    await second.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'daicho'",
    )
    // A block of a process that is alone fails with HEAD_MOVED if the end of its connection is noticed too late.
    await writer.prepare('locked')
    expect(await writer.append()).toBeNull()
    expect(await height()).toBe(3)
    await expectConsistent(second.url(), writer)
    await Promise.all([first.stop(), second.stop()])
  })

  it.each([
    ['continues after a failover to a synchronous standby', 'ANY 1 (s2, s3)', null],
    ['stops when a failover has lost acknowledged blocks', '', 'STORE_ROLLED_BACK'],
  ])('a store %s', async (_, standbys, code) => {
    const name = code ?? 'kept'
    const first = await PostgresServer.create(programs, `${name}-1`)
    const second = await PostgresServer.createStandby(first, { folder: `${name}-2`, name: 's2' })
    await Promise.all([first.start(), second.start()])
    await setStandbys(first, standbys)
    const writer = await Writer.open(urlOf(first, second), 'i')
    expect(await writer.append()).toBeNull()
    // A stopped standby certainly lacks the last block. Without synchronous replication, a running standby might lack
    // it.
    if (code !== null) await second.stop()
    expect(await writer.append()).toBeNull()
    await first.kill9()
    if (code !== null) await second.start()
    await second.promote({ synchronous_standby_names: '' })
    expect(await writer.append()).toBe(code)
    expect(await writer.append()).toBe(code)
    if (code === null) await expectConsistent(second.url(), writer)
    await second.stop()
  })
})

/** Returns a URL that contains both servers. */
function urlOf(first: PostgresServer, second: PostgresServer): string {
  const hosts = [first, second].map(({ port }) => `127.0.0.1:${port}`).join(',')
  return first.url().replace(/@[^/]*/, `@${hosts}`)
}

async function setStandbys(server: PostgresServer, names: string): Promise<void> {
  server.configure({ synchronous_standby_names: names })
  await server.reload()
  await until('the server has read its settings', async () => {
    const [row] = await server.query('SHOW synchronous_standby_names')
    return row?.synchronous_standby_names === names
  })
  // Commits wait for standbys only after the checkpointer has read the settings too. It does so before a checkpoint.
  await server.query('CHECKPOINT')
}

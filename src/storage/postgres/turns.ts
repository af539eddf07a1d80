import { hash } from 'node:crypto'
import type { Schedule } from '../../base/clock.ts'
import { StoreError } from '../port/errors.ts'
import type { Turn, Turns } from '../port/store.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { isLockTimeout, toStoreError } from './errors.ts'
import { Attempts } from './retry.ts'

/** Maximum wait for a turn. */
const WAIT_MS_MAX = 30_000
/** Interval of the statements that keep the server from ending an idle transaction (IDLE_IN_TRANSACTION_MS_MAX). */
const PING_MS = 1_000

const SQL = {
  // The server grants this lock in the order of the requests, and writes nothing to the disk.
  lock: 'SELECT pg_advisory_xact_lock($1::int8)',
  ping: 'SELECT 1',
} as const

/**
 * The turns of the processes of one node, by a lock of the database. The lock ends with its transaction: when this
 * process gives it back, when the process or its connection ends, or when the process does not answer.
 */
export class PostgresTurns implements Turns {
  readonly #options: ConnectionOptions
  readonly #schedule: Schedule
  /** The lock's number. Two names with the same number only take turns with each other. */
  readonly #key: string
  #connection: Connection | null = null
  #timeline = 0
  #isClosed = false

  constructor(options: ConnectionOptions, name: string, schedule: Schedule) {
    this.#options = options
    this.#schedule = schedule
    this.#key = hash('sha256', `daicho turn ${name}`, 'buffer').readBigInt64BE().toString()
  }

  async take(timelineMin: number): Promise<Turn> {
    this.#timeline = Math.max(this.#timeline, timelineMin)
    const attempts = new Attempts()
    const startedMs = performance.now()
    for (;;) {
      try {
        const connection = await this.#locked()
        return new PostgresTurn(connection, this.#schedule)
      } catch (error) {
        this.#drop()
        const isOver = this.#isClosed || performance.now() - startedMs > WAIT_MS_MAX
        if (isLockTimeout(error) && !isOver) continue
        await attempts.after(error).catch((last: unknown) => {
          throw toStoreError(last)
        })
      }
    }
  }

  close(): void {
    this.#isClosed = true
    this.#drop()
  }

  async #locked(): Promise<Connection> {
    if (this.#isClosed) throw new StoreError('STORE_UNAVAILABLE', 'the store is closed')
    if (this.#connection?.isOpen !== true || this.#connection.timeline < this.#timeline) {
      this.#drop()
      const opened = await Connection.open({ ...this.#options, timelineMin: this.#timeline })
      this.#connection = opened
      this.#timeline = opened.timeline
    }
    const connection = this.#connection
    await connection.batch([
      { text: 'BEGIN', values: [] },
      { text: SQL.lock, values: [this.#key] },
    ])
    return connection
  }

  #drop(): void {
    // `Connection.close` never rejects.
    void this.#connection?.close()
    this.#connection = null
  }
}

class PostgresTurn implements Turn {
  readonly #connection: Connection
  #cancelPing: () => void = () => {}

  constructor(connection: Connection, schedule: Schedule) {
    this.#connection = connection
    this.#ping(schedule)
  }

  get timeline(): number {
    return this.#connection.timeline
  }

  async confirm(): Promise<void> {
    try {
      await this.#connection.rows(SQL.ping, [])
    } catch (error) {
      throw toStoreError(error)
    }
  }

  async end(): Promise<void> {
    this.#cancelPing()
    try {
      await this.#connection.execute('ROLLBACK')
    } catch {
      await this.#connection.close()
    }
  }

  #ping(schedule: Schedule): void {
    this.#cancelPing = schedule.after(PING_MS, () => {
      this.#ping(schedule)
      // If the lock is lost, `confirm` and the writer's check of the chain find out.
      this.#connection.rows(SQL.ping, []).catch(() => {})
    })
  }
}

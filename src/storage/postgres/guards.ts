import { StoreError } from '../port/errors.ts'
import type { Row } from '../sql/rows.ts'
import { ConnectionLost } from './errors.ts'

/** Maximum wait for a lock, which each connection requests when it starts. */
export const LOCK_MS_MAX = 2_000
/** `LOCK_MS_MAX` in the form in which the server shows it. */
const LOCK_TIMEOUT = `${LOCK_MS_MAX / 1_000}s`

/** Properties of a server that a connection depends on. */
export interface ServerState {
  /** The reason why a failover could lose acknowledged writes, or null. */
  readonly warning: string | null
}

/** Minimum version of the server: the oldest that was tested. */
const VERSION_MIN = 150_000

// Settings that a server does not have are null.
export const GUARD_QUERY = `SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(),
  current_setting('server_encoding'), current_setting('fsync', true),
  current_setting('full_page_writes', true), current_setting('synchronous_commit', true),
  current_setting('synchronous_standby_names', true), (SELECT count(*) FROM pg_stat_replication),
  current_setting('lock_timeout')`

/**
 * Checks the row of GUARD_QUERY. Errors: ConnectionLost for a standby; STORE_UNSAFE if the server could lose
 * an acknowledged commit in a power cut, unless the store is temporary.
 */
export function guarded(row: Row, durable: boolean): ServerState {
  const [version, isStandby, encoding, fsync, fullPageWrites, commit, ...others] = row
  const [standbyNames, standbys, lockTimeout] = others
  if (isStandby === true) throw new ConnectionLost('the server is a standby')
  if (Number(version) < VERSION_MIN) {
    throw new StoreError('STORE_UNSAFE', `the server has version ${version}; use 15 or later`)
  }
  if (lockTimeout !== LOCK_TIMEOUT) throw behindPooler()
  if (encoding !== 'UTF8') {
    throw new StoreError('STORE_UNSAFE', `the database has encoding ${encoding}; it must be UTF8`)
  }
  const settings = { fsync, full_page_writes: fullPageWrites, synchronous_commit: commit }
  for (const [name, value] of Object.entries(settings)) {
    if (durable && value === 'off') {
      const message = `the database has ${name} = off and could lose acknowledged writes: turn it on`
      throw new StoreError('STORE_UNSAFE', message)
    }
  }
  return { warning: findWarning(Number(standbys), standbyNames, commit) }
}

/**
 * The error for a pooler such as PgBouncer, which refuses or drops the settings of a connection, and may let several
 * clients share one: then a process that vanished keeps its locks.
 */
export function behindPooler(): StoreError {
  const message =
    'the settings of the connection do not reach the server: connect to the server directly, not through a pooler such as PgBouncer'
  return new StoreError('STORE_UNSAFE', message)
}

function findWarning(standbys: number, names: unknown, commit: unknown): string | null {
  if (names === '' && standbys > 0) {
    return 'the database has standbys, but synchronous_standby_names is empty: a failover can lose acknowledged writes'
  }
  if (names !== '' && commit === 'local') {
    return 'the database has synchronous_commit = local: a failover can lose acknowledged writes'
  }
  return null
}

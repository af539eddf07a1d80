import { StoreError } from '../port/errors.ts'
import type { Row } from '../sql/rows.ts'
import { ConnectionLost } from './errors.ts'

/** Properties of a server that a connection depends on. */
export interface ServerState {
  /** The reason why a failover could lose acknowledged writes, or null. */
  readonly warning: string | null
}

/** Minimum version of the server: the first in which `split_part` can count from the end. */
const VERSION_MIN = 140_000

// Settings that a server does not have are null.
export const GUARD_QUERY = `SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(),
  current_setting('server_encoding'), current_setting('fsync', true),
  current_setting('full_page_writes', true), current_setting('synchronous_commit', true),
  current_setting('synchronous_standby_names', true), (SELECT count(*) FROM pg_stat_replication)`

/**
 * Checks the row of GUARD_QUERY. Errors: ConnectionLost for a standby; STORE_UNSAFE if the server could lose
 * an acknowledged commit in a power cut, unless the store is temporary.
 */
export function guarded(row: Row, durable: boolean): ServerState {
  const [version, isStandby, encoding, fsync, fullPageWrites, commit, standbyNames, standbys] = row
  if (isStandby === true) throw new ConnectionLost('the server is a standby')
  if (Number(version) < VERSION_MIN) {
    throw new StoreError('STORE_UNSAFE', `the server has version ${version}; use 14 or later`)
  }
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

function findWarning(standbys: number, names: unknown, commit: unknown): string | null {
  if (names === '' && standbys > 0) {
    return 'the database has standbys, but synchronous_standby_names is empty: a failover can lose acknowledged writes'
  }
  if (names !== '' && commit === 'local') {
    return 'the database has synchronous_commit = local: a failover can lose acknowledged writes'
  }
  return null
}

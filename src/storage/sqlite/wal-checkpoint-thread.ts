import { DatabaseSync } from 'node:sqlite'
import { errorMessage } from '../../base/errors.ts'
import { serveThread, type ThreadPort } from '../../base/worker/worker.ts'
import { sqliteCode } from '../port/errors.ts'

// Thread that checkpoints the WAL on a separate connection. PASSIVE never blocks the writer or a reader. A
// crash loses nothing: SQLite reuses the WAL only after all of it is checkpointed.

/**
 * Result of a checkpoint. `failed` is the error message, or null. `isDisk` means that the disk failed, so the state of
 * the file is unknown.
 */
export interface CheckpointResult {
  readonly failed: string | null
  readonly isDisk: boolean
}

const SQLITE_IOERR = 10

async function serve(path: string, port: ThreadPort<'checkpoint' | 'close', CheckpointResult>) {
  const database = new DatabaseSync(path, { timeout: 1_000 })
  port.on('message', (message) => {
    if (message === 'close') {
      database.close()
      port.close()
      return
    }
    let result: CheckpointResult = { failed: null, isDisk: false }
    try {
      database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch (error) {
      const isDisk = (sqliteCode(error) & 0xff) === SQLITE_IOERR
      result = { failed: errorMessage(error), isDisk }
    }
    port.postMessage(result)
  })
}

await serveThread(serve)

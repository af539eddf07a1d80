import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

// The program of the thread that folds the write-ahead log into the file on a connection of its own,
// so that no commit waits for it. PASSIVE takes what it can without ever holding up the writer or a
// reader. A crash in the middle loses nothing: the log is only used anew when all of it is folded.

/** What became of a fold. */
export type Fold =
  | { readonly failed: null }
  /** `isDisk`: the disk failed, and nobody knows what of the fold is on it. */
  | { readonly failed: string; readonly isDisk: boolean }

const database = new DatabaseSync(String(workerData), { timeout: 1_000 })
parentPort?.on('message', (message: 'fold' | 'close') => {
  if (message === 'close') {
    database.close()
    parentPort?.close()
    return
  }
  try {
    database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    parentPort?.postMessage({ failed: null })
  } catch (error) {
    const { message } = error instanceof Error ? error : { message: String(error) }
    const isDisk = error instanceof Error && 'errcode' in error && isIoError(error.errcode)
    parentPort?.postMessage({ failed: message, isDisk })
  }
})

/** Whether it is SQLITE_IOERR in one of its forms: reading, writing or syncing has failed. */
function isIoError(errcode: unknown): boolean {
  return (Number(errcode) & 0xff) === 10
}

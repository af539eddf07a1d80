import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'

// The program of the thread that folds the write-ahead log into the file on a connection of its own,
// so that no commit waits for it. PASSIVE takes what it can without ever holding up the writer or a
// reader. A crash in the middle loses nothing: the log is only used anew when all of it is folded.

const database = new DatabaseSync(String(workerData), { timeout: 1_000 })
parentPort?.on('message', (message: 'fold' | 'close') => {
  if (message === 'close') {
    database.close()
    parentPort?.close()
    return
  }
  database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  parentPort?.postMessage('folded')
})

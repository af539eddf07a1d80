import type { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

/** Threads of sandboxes that this process has begun since they are watched. */
export interface SandboxThreads {
  readonly begun: number
  /** How many of them have not ended. */
  readonly left: number
}

/** Watches them until the test has finished; the ledger's own threads do not count. */
export function watchSandboxThreads(): SandboxThreads {
  const counts = { begun: 0, left: 0 }
  const watch = (thread: Worker) => {
    if (thread.threadName !== 'network-sandbox') return
    counts.begun += 1
    counts.left += 1
    thread.once('exit', () => {
      counts.left -= 1
    })
  }
  process.on('worker', watch)
  onTestFinished(() => void process.off('worker', watch))
  return counts
}

import type { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

/** Numbers of sandbox threads that this process started after `watchSandboxThreads`. */
export interface SandboxThreads {
  readonly begun: number
  /** Number of these threads that still run. */
  readonly left: number
}

/** Counts sandbox threads until the end of the test. Other threads, such as the ledger's, do not count. */
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

import type { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

/** Sandbox threads that this process has started since watching began. */
export interface SandboxThreads {
  readonly begun: number
  /** Number of threads that are still running. */
  readonly left: number
}

/** Counts them until the test has finished, without the ledger's threads. */
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

// Measures a running program from outside: the memory of its process tree, and the latency of one of its URLs.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const MEMORY_INTERVAL_MS = 20
const REQUEST_INTERVAL_MS = 10
/** Timeout of a request, milliseconds. A request that times out counts with this latency. */
const REQUEST_TIMEOUT_MS = 10_000

export interface Measurements {
  /** Maximum resident memory of the process with its descendants, bytes. 0 if the platform is not Linux. */
  readonly peakBytes: number
  readonly p99Ms: number
  /** Number of requests that failed or took longer than 10 s. */
  readonly failures: number
}

/** Samples the memory of the process tree of `pid` and requests `url` in a loop, until `stop` is called. */
export function watch(pid: number, url: string): { stop(): Promise<Measurements> } {
  let peakBytes = 0
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, treeBytes(pid))
  }, MEMORY_INTERVAL_MS)
  const stopped = new AbortController()
  const latencies: number[] = []
  let failures = 0
  const requests = async () => {
    while (!stopped.signal.aborted) {
      const start = performance.now()
      try {
        const reply = await fetch(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
        await reply.arrayBuffer()
        if (!reply.ok) failures += 1
      } catch {
        failures += 1
      }
      latencies.push(performance.now() - start)
      await sleep(REQUEST_INTERVAL_MS)
    }
  }
  const done = requests()
  return {
    async stop() {
      clearInterval(timer)
      stopped.abort()
      await done
      latencies.sort((left, right) => left - right)
      const p99Ms = latencies[Math.floor(latencies.length * 0.99)] ?? 0
      return { peakBytes, p99Ms, failures }
    },
  }
}

/** Returns the resident memory of `pid` and its descendants in bytes, or 0 if the process has exited. */
export function treeBytes(pid: number): number {
  try {
    const place = `/proc/${pid}`
    const kib = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`${place}/status`, 'utf8'))?.[1] ?? 0
    const children = readdirSync(`${place}/task`).flatMap((task) =>
      readFileSync(`${place}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    )
    return children.reduce((sum, child) => sum + treeBytes(child), Number(kib) * 1024)
  } catch {
    return 0
  }
}

// Threads of a ledger that run in the thread of a test. A real thread takes more processor time to start than most
// tests take for everything else.
import { MessageChannel, type WorkerOptions } from 'node:worker_threads'
import type { Thread, ThreadPort } from '../../src/base/worker/worker.ts'

/** The programs by the names of their threads. They are imported here, after `vi.mock` of a test. */
const PROGRAMS: Readonly<Record<string, (start: never, port: ThreadPort) => Promise<void>>> = {
  async 'ledger-writer'(start, port) {
    const { serveWriter } = await import('../../src/ledger/write/writer-thread.ts')
    const { systemPlatform } = await import('../../src/ledger/platform.ts')
    await serveWriter(start, port, systemPlatform)
  },
  async 'log-signer'(start, port) {
    const { serveSigner } = await import('../../src/ledger/log/thread.ts')
    await serveSigner(start, port)
  },
}

/** Shared by all test files of a process, in which each file has its own copy of this module. */
const shared: typeof globalThis & { daichoRealThreads?: boolean } = globalThis

/** Makes all threads that start until the end of the test file real, for tests of threads themselves. */
export function useRealThreads(areReal = true): void {
  shared.daichoRealThreads = areReal
}

export function hasRealThreads(): boolean {
  return shared.daichoRealThreads === true
}

export function isInline(name: string | undefined): boolean {
  return name !== undefined && name in PROGRAMS
}

/** Runs the program of the thread here. Messages are copied and delivered as between real threads. */
export function inlineThread({ name = '', workerData }: WorkerOptions = {}): Thread {
  const { port1: outer, port2: inner } = new MessageChannel()
  const failed: ((error: unknown) => void)[] = []
  // `WorkerThread` and the programs use only these members of a thread and of its port.
  const port = inner as unknown as ThreadPort
  PROGRAMS[name]?.(structuredClone(workerData) as never, port).catch((error: unknown) => {
    for (const listener of failed) listener(error)
    inner.close()
  })
  return {
    postMessage: (message, moved) => outer.postMessage(message, moved),
    on(event, listener) {
      if (event === 'message') outer.on('message', listener)
      else if (event === 'exit') outer.on('close', () => listener(0))
      else failed.push(listener)
    },
    ref: () => outer.ref(),
    unref: () => outer.unref(),
    terminate: async () => inner.close(),
  }
}

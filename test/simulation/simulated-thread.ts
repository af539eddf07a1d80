import { EventEmitter } from 'node:events'
import type { WorkerOptions } from 'node:worker_threads'
import type { Thread, ThreadPort } from '../../src/base/worker/worker.ts'
import { type SignerStart, serveSigner } from '../../src/ledger/log/thread.ts'
import { type MirrorsStart, serveMirrors } from '../../src/ledger/peers/thread.ts'
import type { Platform } from '../../src/ledger/platform.ts'
import { serveWriter } from '../../src/ledger/write/writer-thread.ts'
import type { StoreOptions } from '../../src/storage/index.ts'
import type { World } from './world.ts'

/** Value of `threadId` after a Node thread has exited. */
const ENDED = -1

/** The two ends of a simulated thread: `outer` is for the node, and `inner` is for the program of the thread. */
interface Ends {
  readonly outer: EventEmitter & { threadId: number }
  readonly inner: EventEmitter
}

/**
 * Runs the program of a worker thread in this thread. Messages are copied as between real threads, and each
 * is delivered in its own iteration of the event loop. `onMessage` receives the messages that the program
 * sends.
 */
export function simulatedThread(
  world: World,
  { name, workerData }: WorkerOptions,
  platform: Platform,
  onMessage: (thread: string, message: unknown) => void,
): Thread {
  const outer = Object.assign(new EventEmitter(), { threadId: 1 })
  const ends: Ends = { outer, inner: new EventEmitter() }
  const end = () => {
    if (outer.threadId === ENDED) return
    outer.threadId = ENDED
    setImmediate(() => outer.emit('exit', 0))
  }
  const port = portOf(world, ends, end, (message) => onMessage(name ?? '', message))
  setImmediate(() => serve(name ?? '', workerData, { port, platform, end }))
  const thread = Object.assign(outer, {
    postMessage: (message: unknown) => send(world, ends, ends.inner, message),
    ref: () => {},
    unref: () => {},
    terminate: async () => {
      end()
      return 0
    },
  })
  // The node uses only these members of a thread.
  return thread as unknown as Thread
}

interface Served {
  readonly port: ThreadPort
  readonly platform: Platform
  readonly end: () => void
}

/** Starts a program without durable writes and without preallocation of the WAL, because the disk is simulated. */
function serve(name: string, start: unknown, { port, platform, end }: Served): void {
  if (name === 'ledger-writer') {
    void serveWriter({ ...(start as StoreOptions), durable: false }, port, platform)
  } else if (name === 'log-signer') void serveSigner(start as SignerStart, port)
  else void serveMirrors({ ...(start as MirrorsStart), durable: false }, port, platform, end)
}

function portOf(
  world: World,
  ends: Ends,
  end: () => void,
  sees: (message: unknown) => void,
): ThreadPort {
  const { inner, outer } = ends
  const early: unknown[] = []
  const keepEarly = (message: unknown) => early.push(message)
  inner.on('message', keepEarly)
  const port = {
    postMessage: (message: unknown) => {
      sees(message)
      send(world, ends, outer, message)
    },
    on: (event: 'message', receive: (message: unknown) => void) => {
      inner.off(event, keepEarly)
      for (const message of early.splice(0)) receive(message)
      inner.on(event, receive)
    },
    close: end,
  }
  return port as unknown as ThreadPort
}

function send(world: World, { outer }: Ends, to: EventEmitter, message: unknown): void {
  const copy = structuredClone(message)
  world.underWay += 1
  setImmediate(() => {
    world.underWay -= 1
    if (outer.threadId !== ENDED) to.emit('message', copy)
  })
}

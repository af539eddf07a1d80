import { randomBytes } from 'node:crypto'
import { type MessagePort, Worker, type WorkerOptions } from 'node:worker_threads'
import { type Clock, type Schedule, systemClock, systemSchedule } from '../base/clock.ts'
import type { Outbound } from '../http/outbound.ts'
import { openStore, type Store, type StoreOptions } from '../storage/index.ts'

/** A program of the node that runs beside it; the members of `Worker` that nodes use. */
export type Thread = Pick<
  Worker,
  'postMessage' | 'on' | 'once' | 'off' | 'ref' | 'unref' | 'terminate' | 'threadId'
>

/** What the program of a thread has of it; the members of `MessagePort` that programs use. */
export type ThreadPort = Pick<MessagePort, 'postMessage' | 'on' | 'close'>

/**
 * What a node has of the machine that it runs on, besides its folder. An argument: the simulation
 * (test/simulation) turns all of it by hand, docs/decisions/0107-simulation.md.
 */
export interface Platform {
  readonly clock: Clock
  readonly schedule: Schedule
  /** How other nodes are called. */
  readonly outbound: Outbound
  /** So many random bytes that nobody can guess. */
  random(bytes: number): Buffer
  /** Opens a store for writing. Errors: StoreError. */
  openStore(options: StoreOptions): Store
  /** Runs `program` beside the node, with a port that leads here. */
  startThread(program: URL, options: WorkerOptions): Thread
}

/** The network as it is. Loaded when it is first used: most threads of a node never do. */
const outbound: Outbound = {
  get: async (...given) => (await loadOutbound()).get(...given),
  post: async (...given) => (await loadOutbound()).post(...given),
}

async function loadOutbound(): Promise<Outbound> {
  return (await import('../http/outbound.ts')).systemOutbound
}

/** The machine as it is. */
export const systemPlatform: Platform = {
  clock: systemClock,
  schedule: systemSchedule,
  outbound,
  random: randomBytes,
  openStore,
  startThread: (program, options) => new Worker(program, options),
}

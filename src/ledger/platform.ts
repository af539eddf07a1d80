import { randomBytes } from 'node:crypto'
import { type Clock, type Schedule, systemClock, systemSchedule } from '../base/clock.ts'
import { systemThreads, type Threads } from '../base/worker/worker.ts'
import type { Outbound } from '../http/outbound.ts'
import { openStore, type Store, type StoreOptions } from '../storage/index.ts'

/**
 * All parts of the runtime that a node uses, except the files of its folder. The simulation (test/simulation) replaces
 * every member.
 */
export interface Platform extends Threads {
  readonly clock: Clock
  readonly schedule: Schedule
  /** Client for HTTP requests to other nodes. */
  readonly outbound: Outbound
  /** Cryptographically secure random bytes. */
  random(bytes: number): Buffer
  /** Opens a store for writing. Errors: StoreError. */
  openStore(options: StoreOptions): Promise<Store>
}

/** Loads the HTTP client on first use, because most threads of a node never need it. */
const outbound: Outbound = {
  get: async (...given) => (await loadOutbound()).get(...given),
  post: async (...given) => (await loadOutbound()).post(...given),
}

async function loadOutbound(): Promise<Outbound> {
  return (await import('../http/outbound.ts')).systemOutbound
}

export const systemPlatform: Platform = {
  clock: systemClock,
  schedule: systemSchedule,
  outbound,
  random: randomBytes,
  openStore,
  ...systemThreads,
}

import type { ItemVerdict, ListVerdict, ShownItem, ShownList } from './item-proof.ts'
import type { Remembered } from './known-chain.ts'
import type { Progress, Verdict } from './verify-chain.ts'

/** The only message of the page to a worker. */
export interface VerifyRequest {
  readonly base: string
  /** The chain that this browser verified last at this address, or null. */
  readonly remembered: Remembered | null
  /** The revision or the list to verify; absent for the whole chain. */
  readonly shown?: ShownItem | ShownList
  /** Where the worker gets the token of each request, if the user signed in at an issuer. */
  readonly tokens?: InstanceType<typeof MessagePort> | null
}

export type WorkerMessage =
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'verdict'; readonly verdict: Verdict }
  | ProofMessage
  | { readonly kind: 'failed'; readonly message: string }

export interface ProofMessage {
  readonly kind: 'proof'
  readonly verdict: ItemVerdict | ListVerdict
  readonly serverId: number
}

import type { VerifySignature } from '../chain/portable.ts'

/** Where the last head that was verified is kept: a text of some 200 characters. */
export interface CheckpointPlace {
  /** What `set` was last given, or nothing. */
  get(): string | null | undefined | Promise<string | null | undefined>
  /** A read is answered when this has been done. */
  set(checkpoint: string): void | Promise<void>
}

/** By what a node is believed. */
export interface VerifyOptions {
  /** The verifier key of the node, `daicho/<serverid>+…`, from somewhere else than the node. */
  readonly key: string
  readonly checkpoint: CheckpointPlace
  /** Ed25519, where WebCrypto has none. */
  readonly verifySignature?: VerifySignature
}

import type { Json } from '../../../base/json.ts'
import {
  type Checkpoint,
  EMPTY_FRONTIER,
  equalBytes,
  type Frontier,
  grown,
  openCheckpoint,
  ProofError,
  rootOf,
  type VerifierKey,
  type VerifySignature,
  verifierKeyOf,
} from '../../../chain/portable.ts'
import type { Fault, FaultCode } from './faults.ts'
import { type Hashing, verifyBlock } from './verify-block.ts'

/** What a browser remembers of a chain that it verified. */
export interface Remembered {
  readonly verifierKey: string
  readonly size: number
  /** Root of the log of that size, base64. */
  readonly root: string
}

/** What a verification looks at. */
export interface ChainSource {
  readonly serverId: number
  /** As the node gives it. */
  readonly verifierKey: string
  /** The signed note; null when the node signs none, as where its store is broken. */
  readonly checkpoint: string | null
  /** What was verified before; null the first time. */
  readonly remembered: Remembered | null
  /** Blocks with their proofs from a height on, at most `limit`. Errors: any; nothing is believed. */
  readonly blocks: (from: number, limit: number) => Promise<readonly Json[]>
}

/** How the page computes. */
export interface VerifierCrypto extends Hashing {
  readonly verifySignature: VerifySignature
}

/** How far a verification has come. */
export interface Progress {
  readonly blocks: number
  /** How many are signed; null when the node signs none. */
  readonly size: number | null
  readonly entries: number
  readonly erased: number
}

/** What has come of it. */
export interface Verdict extends Progress {
  /** Null: everything holds. */
  readonly fault: Fault | null
  /** What to remember when everything holds. */
  readonly remember: Remembered | null
}

/** Entries that one request should bring, and the blocks that it may. */
const ENTRIES_PER_PAGE = 2_000
const BLOCKS_MAX = 256

/**
 * Verifies the chain of a node from its first block to its last: the key and the signature of the
 * checkpoint, every block, the signed root, and that all continues what was verified before. Blocks that
 * came after the checkpoint hang on it by their links.
 * Errors: those of `source.blocks` when even a single block could not be asked for.
 */
export async function verifyChain(
  crypto: VerifierCrypto,
  source: ChainSource,
  onProgress: (progress: Progress) => void,
): Promise<Verdict> {
  const none = { blocks: 0, size: null, entries: 0, erased: 0 }
  const { remembered } = source
  const signed = await signedHead(crypto, source)
  if (typeof signed === 'string') return verdict(none, fault(signed))
  const size = signed?.size ?? null
  if (remembered !== null && size !== null && remembered.size > size) {
    return verdict({ ...none, size }, fault('rolledBack'))
  }

  const walk = new Walk(crypto, source, size)
  for (;;) {
    const found = await walk.page()
    if (found === 'end') break
    if (found !== null) return verdict(walk.progress, found)
    onProgress(walk.progress)
  }
  if (signed === null) return verdict(walk.progress, fault('unsigned'))
  if (walk.progress.blocks < signed.size) {
    return verdict(walk.progress, fault('missing', walk.progress.blocks))
  }
  if (!equalBytes(walk.rootAtSize, signed.root)) return verdict(walk.progress, fault('log'))
  return {
    ...walk.progress,
    fault: null,
    remember: {
      verifierKey: source.verifierKey.trim(),
      size: signed.size,
      root: base64Of(signed.root),
    },
  }
}

/** The checkpoint, when the key is the node's and has signed it; null for none; else what is wrong. */
async function signedHead(
  crypto: VerifierCrypto,
  { serverId, verifierKey, checkpoint, remembered }: ChainSource,
): Promise<Checkpoint | FaultCode | null> {
  let key: VerifierKey
  try {
    key = verifierKeyOf(crypto.sha256, verifierKey.trim())
  } catch {
    return 'key'
  }
  // The server id is made of the first 53 bits of the hash of the key: docs/reference/chain-format.md.
  const digest = crypto.sha256(key.publicKey)
  const first = new DataView(digest.buffer, digest.byteOffset).getBigUint64(0)
  if ((Number(first >> 11n) || 1) !== serverId) return 'key'
  if (remembered !== null && remembered.verifierKey !== verifierKey.trim()) return 'keyChanged'
  if (checkpoint === null) return null
  try {
    return await openCheckpoint(crypto, key, checkpoint)
  } catch (error) {
    const isForged = error instanceof ProofError && /^NOTE_(FORGED|UNSIGNED)$/.test(error.code)
    return isForged ? 'signature' : 'checkpoint'
  }
}

/** The way along the blocks. */
class Walk {
  progress: Progress
  /** Root of the log when it had the size that is signed. */
  rootAtSize: Uint8Array
  #log: Frontier = EMPTY_FRONTIER
  readonly #crypto: VerifierCrypto
  readonly #source: ChainSource
  #prevId: string | null = null
  #timestamp = 0
  #limit = 16

  constructor(crypto: VerifierCrypto, source: ChainSource, size: number | null) {
    this.#crypto = crypto
    this.#source = source
    this.progress = { blocks: 0, size, entries: 0, erased: 0 }
    this.rootAtSize = rootOf(crypto.sha256, this.#log)
  }

  /** Verifies the next blocks, also those that are not signed yet; resolves to what is wrong, or null. */
  async page(): Promise<Fault | 'end' | null> {
    const { blocks: from, entries: before } = this.progress
    const limit = this.#limit
    let blocks: readonly Json[]
    try {
      blocks = await this.#source.blocks(from, limit)
    } catch (error) {
      // What cannot be read is found block by block.
      if (!(error instanceof UnreadableReply)) throw error
      if (limit === 1) return fault('unreadable', from)
      this.#limit = Math.max(1, Math.floor(limit / 4))
      return null
    }
    if (blocks.length === 0) return 'end'
    for (const value of blocks.slice(0, limit)) {
      const found = this.#block(value)
      if (found !== null) return found
    }
    const each = (this.progress.entries - before) / blocks.length
    this.#limit = Math.max(1, Math.min(BLOCKS_MAX, limit * 4, Math.ceil(ENTRIES_PER_PAGE / each)))
    return null
  }

  #block(value: Json): Fault | null {
    const { blocks: height, entries, erased } = this.progress
    const before = {
      serverId: this.#source.serverId,
      height,
      prevId: this.#prevId,
      timestamp: this.#timestamp,
    }
    const block = verifyBlock(this.#crypto, value, before)
    if ('code' in block) return { ...block, height }
    this.#prevId = block.id
    this.#timestamp = block.timestamp
    this.#log = grown(this.#crypto.sha256, this.#log, block.leaf).frontier
    this.progress = {
      ...this.progress,
      blocks: height + 1,
      entries: entries + block.entries,
      erased: erased + block.erased,
    }
    if (this.progress.size === height + 1) {
      this.rootAtSize = rootOf(this.#crypto.sha256, this.#log)
    }
    const { remembered } = this.#source
    if (remembered?.size !== height + 1) return null
    const root = base64Of(rootOf(this.#crypto.sha256, this.#log))
    return root === remembered.root ? null : fault('forked')
  }
}

/** Thrown by a source for a reply that is not JSON of blocks: one of them may be broken. */
export class UnreadableReply extends Error {
  override readonly name = 'UnreadableReply'
}

function fault(code: FaultCode, height: number | null = null): Fault {
  return { code, height, index: null }
}

function verdict(progress: Progress, found: Fault): Verdict {
  return { ...progress, fault: found, remember: null }
}

function base64Of(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}

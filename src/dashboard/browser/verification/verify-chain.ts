import { toBase64 } from '../../../base/base64.ts'
import { canonicalJson } from '../../../base/canonical-json.ts'
import { isJsonObject, type Json } from '../../../base/json.ts'
import {
  ChainVerifier,
  type Checkpoint,
  decodeEntry,
  equalBytes,
  frontierRoot,
  hasContent,
  openCheckpoint,
  ProofError,
  parseBlockParts,
  type VerifySignature,
} from '../../../chain/portable.ts'
import { type Fault, FaultFound } from './checks.ts'
import { type KnownNode, type Remembered, requireKey } from './known-chain.ts'

/** A node whose chain is verified. */
export interface NodeChain extends KnownNode {
  /** The signed note, or null if the node does not sign, for example because its store is damaged. */
  readonly checkpoint: string | null
  /** Returns at most `limit` blocks with proofs, starting at height `from`. Errors: UnreadableReply and others. */
  readonly blocks: (from: number, limit: number) => Promise<readonly Json[]>
}

/** Thrown by a source if a reply is not a JSON list of blocks, for example because a block is damaged. */
export class UnreadableReply extends Error {
  override readonly name = 'UnreadableReply'
}

export interface Progress {
  readonly blocks: number
  /** Size of the signed log, or null if the node does not sign. */
  readonly size: number | null
  readonly entries: number
  readonly erased: number
}

export interface Verdict extends Progress {
  /** Null if the chain is valid. */
  readonly fault: Fault | null
  /** The result with which the next verification is compared, or null if the chain is not valid. */
  readonly remember: Remembered | null
}

/** Target number of entries per request. The number of blocks per request is adapted to this number. */
const ENTRIES_PER_PAGE = 2_000
/** Maximum number of blocks per request. */
const BLOCKS_MAX = 256

/**
 * Verifies the whole chain of a node: the key and the signature of the checkpoint, every block, the signed root, and
 * that the chain continues the chain of the last verification. Blocks that are newer than the checkpoint are verified
 * too, but no signature covers them. Errors: the errors of `source.blocks` other than UnreadableReply.
 */
export async function verifyChain(
  verifySignature: VerifySignature,
  source: NodeChain,
  onProgress: (progress: Progress) => void,
): Promise<Verdict> {
  const walk = new Walk(source)
  try {
    const signed = await requireCheckpoint(verifySignature, source)
    await walk.requireBlocks(signed, onProgress)
    const { size, root } = walk.requireSigned(signed)
    const remember = { verifierKey: source.verifierKey.trim(), size, root: toBase64(root) }
    return { ...walk.progress, fault: null, remember }
  } catch (error) {
    if (!(error instanceof FaultFound)) throw error
    return { ...walk.progress, fault: error.fault, remember: null }
  }
}

/** Returns the checkpoint, or null if the node does not sign. Errors: FaultFound. */
async function requireCheckpoint(
  verifySignature: VerifySignature,
  source: NodeChain,
): Promise<Checkpoint | null> {
  const key = requireKey(source)
  if (source.checkpoint === null) return null
  try {
    return await openCheckpoint(verifySignature, key, source.checkpoint)
  } catch (error) {
    const isForged = error instanceof ProofError && /^NOTE_(FORGED|UNSIGNED)$/.test(error.code)
    throw new FaultFound(isForged ? 'signature' : 'checkpoint')
  }
}

/** A verification of all blocks. Errors of the methods: FaultFound. */
class Walk {
  progress: Progress = { blocks: 0, size: null, entries: 0, erased: 0 }
  readonly #source: NodeChain
  readonly #chain = new ChainVerifier()
  /** Root of the log at the signed size. */
  #rootAtSize = frontierRoot(this.#chain.state.frontier)

  constructor(source: NodeChain) {
    this.#source = source
  }

  /** Verifies all blocks, also blocks that are not signed yet. */
  async requireBlocks(
    signed: Checkpoint | null,
    onProgress: (progress: Progress) => void,
  ): Promise<void> {
    const { remembered } = this.#source
    this.progress = { ...this.progress, size: signed?.size ?? null }
    if (remembered !== null && signed !== null && remembered.size > signed.size) {
      throw new FaultFound('rolledBack')
    }
    for (let limit = 16; ; ) {
      const blocks = await this.#read(limit)
      if (blocks === null) {
        // The next request is for fewer blocks, to find the block that cannot be read.
        limit = Math.max(1, Math.floor(limit / 4))
        continue
      }
      if (blocks.length === 0) return
      const before = this.progress.entries
      for (const value of blocks) this.#require(value)
      onProgress(this.progress)
      const each = (this.progress.entries - before) / blocks.length
      limit = Math.max(1, Math.min(BLOCKS_MAX, limit * 4, Math.ceil(ENTRIES_PER_PAGE / each)))
    }
  }

  /** Returns `signed`, whose root must be that of the verified blocks. */
  requireSigned(signed: Checkpoint | null): Checkpoint {
    const { blocks } = this.progress
    if (signed === null) throw new FaultFound('unsigned')
    if (blocks < signed.size) throw new FaultFound('missing', blocks)
    if (equalBytes(this.#rootAtSize, signed.root)) return signed
    throw new FaultFound('log')
  }

  /** Returns the next blocks, or null if the reply for more than one block cannot be read. */
  async #read(limit: number): Promise<readonly Json[] | null> {
    const { blocks } = this.progress
    try {
      return (await this.#source.blocks(blocks, limit)).slice(0, limit)
    } catch (error) {
      if (!(error instanceof UnreadableReply)) throw error
      if (limit > 1) return null
      throw new FaultFound('unreadable', blocks)
    }
  }

  #require(value: Json): void {
    const { blocks: height, entries, erased, size } = this.progress
    const { serverId, remembered } = this.#source
    const block = verifyListedBlock(value, serverId, this.#chain)
    if ('code' in block) throw new FaultFound(block.code, height, block.index)
    const root = frontierRoot(this.#chain.state.frontier)
    this.progress = {
      blocks: height + 1,
      size,
      entries: entries + block.entries,
      erased: erased + block.erased,
    }
    if (size === height + 1) this.#rootAtSize = root
    if (remembered?.size !== height + 1 || toBase64(root) === remembered.root) return
    throw new FaultFound('forked')
  }
}

export interface VerifiedBlock {
  readonly entries: number
  readonly erased: number
}

/**
 * Verifies the next block `value` of node `serverId`, which comes from `GET /api/ledgers?proof=1`, and adds it to `chain`.
 * Commitments are computed from the parsed entries, so that the page verifies exactly the values that it shows. Source:
 * docs/reference/ledger/chain-format.md.
 */
export function verifyListedBlock(
  value: Json,
  serverId: number,
  chain: ChainVerifier,
): VerifiedBlock | Omit<Fault, 'height'> {
  const parts = parseBlockParts(value)
  if (typeof parts === 'string') return { code: 'shape', index: null }
  const { body, ...sealed } = parts
  const foreign = body.findIndex((entry) => Object(entry).serverid !== serverId)
  if (foreign !== -1) return { code: 'serverid', index: foreign }
  const erased = findErased(value)
  const entries = body.map((entry, index) => entryText(entry, erased.has(index)))
  const malformed = entries.indexOf(null)
  if (malformed !== -1) return { code: 'shape', index: malformed }
  const block = { ...sealed, serverId, entries: entries.filter((text) => text !== null) }
  const found = chain.push(block, { erased })
  if (found !== null) return { code: found.code, index: found.index }
  return { entries: body.length, erased: erased.size }
}

/**
 * Returns the canonical text of an entry, or null for any other value. Only an erased entry may have no content, and it
 * has no author and no reason, because nothing proves them.
 */
function entryText(value: Json, isErased: boolean): string | null {
  const entry = decodeEntry(value)
  if (entry === null || !(isErased || hasContent(entry))) return null
  if (isErased && (entry.by !== undefined || entry.reason !== undefined)) return null
  try {
    return canonicalJson(value)
  } catch {
    return null // A lone surrogate or an infinite number has no canonical form.
  }
}

/** Returns the indexes of the erased entries, which have no blind. */
function findErased(value: Json): ReadonlySet<number> {
  const proof = isJsonObject(value) && isJsonObject(value.proof) ? value.proof : {}
  const blinds = Array.isArray(proof.blinds) ? proof.blinds : []
  return new Set(blinds.flatMap((blind, index) => (blind === null ? [index] : [])))
}

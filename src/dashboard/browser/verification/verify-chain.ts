import { toBase64 } from '../../../base/base64.ts'
import { canonicalJson } from '../../../base/canonical-json.ts'
import { isJsonObject, type Json } from '../../../base/json.ts'
import {
  type BlockFault,
  ChainVerifier,
  type Checkpoint,
  decodeEntry,
  equalBytes,
  frontierRoot,
  hasContent,
  openCheckpoint,
  ProofError,
  parseBlockParts,
  parseVerifierKey,
  serverIdOfRaw,
  type VerifierKey,
  type VerifySignature,
} from '../../../chain/portable.ts'
import type { Texts } from '../language/english.ts'

/** All possible faults. `Texts.faults` has a sentence for each fault. */
export type FaultCode =
  | BlockFault['code']
  | 'unreadable'
  | 'shape'
  | 'missing'
  | 'serverid'
  | 'unsigned'
  | 'signature'
  | 'checkpoint'
  | 'key'
  | 'keyChanged'
  | 'log'
  | 'rolledBack'
  | 'forked'

/** The first fault of a chain. */
export interface Fault {
  readonly code: FaultCode
  /** Height of the block, or null if the fault does not concern a block. */
  readonly height: number | null
  /** Index of the entry, or null if the fault does not concern an entry. */
  readonly index: number | null
}

/** The stored result of an earlier verification. */
export interface Remembered {
  readonly verifierKey: string
  readonly size: number
  /** Root of the log with `size` blocks, in base64. */
  readonly root: string
  /** Time at which this browser verified the whole chain, milliseconds since the Unix epoch. */
  readonly verifiedAt?: number
}

/**
 * Returns what to remember after `chain` was verified. If `chain` has no `verifiedAt`, the old one stays. The larger size
 * with its root stays too, because another tab may have verified more blocks meanwhile.
 */
export function merged(before: Remembered | null, chain: Remembered): Remembered {
  const isBehind = before?.verifierKey === chain.verifierKey && before.size > chain.size
  const { size, root } = isBehind ? before : chain
  return { ...before, ...chain, size, root }
}

export interface ChainSource {
  readonly serverId: number
  /** The verifier key, as returned by the node. */
  readonly verifierKey: string
  /** The signed note, or null if the node does not sign, for example because its store is damaged. */
  readonly checkpoint: string | null
  /** The result of the last verification, or null at the first verification. */
  readonly remembered: Remembered | null
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
  source: ChainSource,
  onProgress: (progress: Progress) => void,
): Promise<Verdict> {
  const { remembered } = source
  const signed = await signedHead(verifySignature, source)
  const walk = new Walk(source, typeof signed === 'string' ? null : (signed?.size ?? null))
  const refused = (found: Fault): Verdict => ({ ...walk.progress, fault: found, remember: null })
  if (typeof signed === 'string') return refused(fault(signed))
  if (remembered !== null && signed !== null && remembered.size > signed.size) {
    return refused(fault('rolledBack'))
  }
  for (;;) {
    const found = await walk.nextPage()
    if (found === 'end') break
    if (found !== null) return refused(found)
    onProgress(walk.progress)
  }
  if (signed === null) return refused(fault('unsigned'))
  const { blocks } = walk.progress
  if (blocks < signed.size) return refused(fault('missing', blocks))
  if (!equalBytes(walk.rootAtSize, signed.root)) return refused(fault('log'))
  return {
    ...walk.progress,
    fault: null,
    remember: {
      verifierKey: source.verifierKey.trim(),
      size: signed.size,
      root: toBase64(signed.root),
    },
  }
}

/** Returns the checkpoint; null if the node does not sign; the fault if the key or the signature is invalid. */
async function signedHead(
  verifySignature: VerifySignature,
  { serverId, verifierKey, checkpoint, remembered }: ChainSource,
): Promise<Checkpoint | FaultCode | null> {
  let key: VerifierKey
  try {
    key = parseVerifierKey(verifierKey.trim())
  } catch {
    return 'key'
  }
  if (serverIdOfRaw(key.publicKey) !== serverId) return 'key'
  if (remembered !== null && remembered.verifierKey !== verifierKey.trim()) return 'keyChanged'
  if (checkpoint === null) return null
  try {
    return await openCheckpoint(verifySignature, key, checkpoint)
  } catch (error) {
    const isForged = error instanceof ProofError && /^NOTE_(FORGED|UNSIGNED)$/.test(error.code)
    return isForged ? 'signature' : 'checkpoint'
  }
}

class Walk {
  progress: Progress
  /** Root of the log at the signed size. */
  rootAtSize: Uint8Array
  readonly #source: ChainSource
  readonly #chain = new ChainVerifier()
  #limit = 16

  constructor(source: ChainSource, size: number | null) {
    this.#source = source
    this.progress = { blocks: 0, size, entries: 0, erased: 0 }
    this.rootAtSize = frontierRoot(this.#chain.state.frontier)
  }

  /**
   * Verifies the next blocks, including unsigned blocks. Resolves to the first fault, to `end` if there are no more
   * blocks, or to null if the blocks are valid.
   */
  async nextPage(): Promise<Fault | 'end' | null> {
    const { blocks: from, entries: before } = this.progress
    const limit = this.#limit
    let blocks: readonly Json[]
    try {
      blocks = await this.#source.blocks(from, limit)
    } catch (error) {
      // The next request is for fewer blocks, to find the block that cannot be read.
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
    const { blocks: height, size, entries, erased } = this.progress
    const { serverId, remembered } = this.#source
    const block = verifyListedBlock(value, serverId, this.#chain)
    if ('code' in block) return { ...block, height }
    const root = frontierRoot(this.#chain.state.frontier)
    this.progress = {
      blocks: height + 1,
      size,
      entries: entries + block.entries,
      erased: erased + block.erased,
    }
    if (size === height + 1) this.rootAtSize = root
    if (remembered?.size !== height + 1) return null
    return toBase64(root) === remembered.root ? null : fault('forked')
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
  const erased = erasedIn(value)
  const entries = body.map((entry, index) => entryText(entry, erased.has(index)))
  const malformed = entries.indexOf(null)
  if (malformed !== -1) return { code: 'shape', index: malformed }
  const block = { ...sealed, serverId, entries: entries.filter((text) => text !== null) }
  const found = chain.push(block, { erased })
  if (found !== null) return { code: found.code, index: found.index }
  return { entries: body.length, erased: erased.size }
}

/** Returns the canonical text of an entry, or null for any other value. Only an erased entry may have no content. */
function entryText(value: Json, isErased: boolean): string | null {
  const entry = decodeEntry(value)
  if (entry === null || !(isErased || hasContent(entry))) return null
  try {
    return canonicalJson(value)
  } catch {
    return null // A lone surrogate or an infinite number has no canonical form.
  }
}

/** Returns the indexes of the erased entries, which have no blind. */
function erasedIn(value: Json): ReadonlySet<number> {
  const proof = isJsonObject(value) && isJsonObject(value.proof) ? value.proof : {}
  const blinds = Array.isArray(proof.blinds) ? proof.blinds : []
  return new Set(blinds.flatMap((blind, index) => (blind === null ? [index] : [])))
}

function fault(code: FaultCode, height: number | null = null): Fault {
  return { code, height, index: null }
}

/** The name of a check, which is also the name of its text. */
export type CheckName = keyof Texts['checks']
/** The result of a check: `open` if the check is not complete, `none` if there was nothing to compare with. */
export type CheckState = 'holds' | 'fails' | 'open' | 'none'

/** The checks in the order of a verification, each with the faults that the check reports. */
const CHECKS: readonly (readonly [CheckName, readonly FaultCode[]])[] = [
  ['key', ['key', 'keyChanged']],
  ['signature', ['signature', 'checkpoint', 'unsigned']],
  ['links', ['link', 'missing', 'unreadable', 'shape', 'counts', 'serverid']],
  ['times', ['time']],
  ['commitments', ['commitment']],
  ['roots', ['root']],
  ['ids', ['id']],
  ['log', ['log']],
  ['memory', ['rolledBack', 'forked']],
]
/** Checks that are made for each block, and so are complete only after the last block. */
const BLOCK_CHECKS = new Set<CheckName>(['links', 'times', 'commitments', 'roots', 'ids'])

/**
 * Returns the state of each check. A verification stops at the first fault. Checks that were not started, or that saw
 * only the blocks before the fault, are `open`.
 */
export function checkStates(
  fault: Fault | null,
  isDone: boolean,
  hadMemory: boolean,
): readonly (readonly [CheckName, CheckState])[] {
  const failing = CHECKS.findIndex(([, codes]) => fault !== null && codes.includes(fault.code))
  return CHECKS.map(([name], at) => {
    if (!isDone) return [name, 'open']
    if (at === failing) return [name, 'fails']
    if (name === 'memory' && !hadMemory) return [name, 'none']
    if (fault === null) return [name, 'holds']
    const isPassed = at < failing && !(BLOCK_CHECKS.has(name) && fault.height !== null)
    return [name, isPassed && fault.code !== 'rolledBack' ? 'holds' : 'open']
  })
}

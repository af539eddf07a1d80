import { canonicalJson } from '../../../base/canonical-json.ts'
import { isJsonObject, type Json } from '../../../base/json.ts'
import {
  EMPTY_FRONTIER,
  equalBytes,
  grown,
  headerText,
  hmacSha256,
  leafHash,
  rootOf,
  type Sha256,
} from '../../../chain/portable.ts'
import type { FaultCode } from './faults.ts'
import { type GivenBlock, givenBlock } from './proven-block.ts'

/** How the page hashes. */
export interface Hashing {
  readonly sha256: Sha256
  readonly sha512Hex: (bytes: Uint8Array) => string
}

/** What the next block must follow from. */
export interface Before {
  readonly serverId: number
  readonly height: number
  readonly prevId: string | null
  readonly timestamp: number
}

/** A block of which everything holds. */
export interface VerifiedBlock {
  readonly id: string
  /** Of its last entry. */
  readonly timestamp: number
  readonly entries: number
  readonly erased: number
  /** Its leaf in the log. */
  readonly leaf: Uint8Array
}

/** Why a block does not hold; `index` is that of the entry. */
export interface BlockFault {
  readonly code: FaultCode
  readonly index: number | null
}

const utf8 = new TextEncoder()

/**
 * Recomputes the block that `value` is, as `GET /api/ledgers?proof=1` gives it: every commitment, the
 * root and the id; and compares its link, its counts and its timestamps.
 *
 * Of an entry that was erased the commitment is taken as it is. The text of an entry is made anew from
 * its value, which is what a reader sees. Source: docs/reference/chain-format.md.
 */
export function verifyBlock(
  hashing: Hashing,
  value: Json,
  before: Before,
): VerifiedBlock | BlockFault {
  const block = givenBlock(value)
  if (block === null) return { code: 'shape', index: null }
  const { serverId, height, prevId } = before
  if (block.prevId !== prevId) return { code: 'link', index: null }
  const count = block.body.length
  if (
    count === 0 ||
    [block.timestamps, block.blinds, block.commitments].some((l) => l.length !== count)
  ) {
    return { code: 'counts', index: null }
  }
  const fault = entryFault(hashing, block, before)
  if (fault !== null) return fault
  const { sha256, sha512Hex } = hashing
  let tree = EMPTY_FRONTIER
  for (const one of block.commitments) tree = grown(sha256, tree, leafHash(sha256, one)).frontier
  const root = hexOf(rootOf(sha256, tree))
  if (root !== block.root) return { code: 'root', index: null }
  const header = { serverId, height, prevId, nonce: block.nonce, root, count }
  const bytes = utf8.encode(headerText(header))
  if (sha512Hex(bytes) !== block.id) return { code: 'id', index: null }
  return {
    id: block.id,
    timestamp: block.timestamps.at(-1) ?? 0,
    entries: count,
    erased: block.blinds.filter((blind) => blind === null).length,
    leaf: leafHash(sha256, bytes),
  }
}

/** The first entry whose time, node or commitment is not right. */
function entryFault({ sha256 }: Hashing, block: GivenBlock, before: Before): BlockFault | null {
  let last = before.timestamp
  for (const [index, entry] of block.body.entries()) {
    const timestamp = block.timestamps[index] ?? 0
    if (timestamp < last) return { code: 'time', index }
    last = timestamp
    if (!isJsonObject(entry) || entry.serverid !== before.serverId)
      return { code: 'serverid', index }
    const blind = block.blinds[index]
    if (blind === null || blind === undefined) continue
    const message = utf8.encode(`{"entry":${canonicalJson(entry)},"timestamp":${timestamp}}`)
    const given = block.commitments[index] ?? new Uint8Array(0)
    if (!equalBytes(hmacSha256(sha256, blind, message), given)) return { code: 'commitment', index }
  }
  return null
}

function hexOf(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

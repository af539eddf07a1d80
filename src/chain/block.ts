import { isCount, isJsonObject } from '../base/json.ts'
import { parseForeignJsonOrNull } from '../base/strict-json.ts'
import { ENTRIES_MAX } from './entry.ts'
import { HASH_BYTES, HmacSha256, hashAt, hashWriter, sha512Hex, toHex } from './hashes.ts'
import { treeRoot } from './merkle-tree.ts'

/** Version of the chain format. Part of each header, so another version gives other block ids. */
const CHAIN_VERSION = 1

/**
 * A block of a chain, as it is stored and exchanged between peers. It has 1 to ENTRIES_MAX entries in the order in
 * which they were applied, each as the canonical text that is hashed. `timestamps[i]` is the time when entry i was
 * recorded, in milliseconds since the Unix epoch; timestamps never decrease along the chain. `blinds` and
 * `commitments` contain 32 bytes per entry, concatenated.
 */
export interface Block {
  readonly serverId: number
  /** Number of preceding blocks. */
  readonly height: number
  /** SHA-512 of the header, 128 lowercase hex digits. */
  readonly id: string
  readonly prevId: string | null
  readonly nonce: number
  /** Root of the Merkle tree over the commitments, 64 lowercase hex digits. */
  readonly root: string
  readonly entries: readonly string[]
  readonly timestamps: readonly number[]
  readonly blinds: Uint8Array
  readonly commitments: Uint8Array
}

/** The part of a block that is needed to seal or to verify the block after it. */
export interface Head {
  readonly height: number
  readonly id: string
  /** Timestamp of the last entry. */
  readonly timestamp: number
}

export function toHead(block: Block): Head {
  return { height: block.height, id: block.id, timestamp: block.timestamps.at(-1) ?? 0 }
}

/** The part of a block from which the block id is computed. The canonical text of a header is the leaf of the log. */
export interface Header {
  readonly serverId: number
  readonly height: number
  readonly prevId: string | null
  readonly nonce: number
  readonly root: string
  readonly count: number
}

export function toHeader(block: Block): Header {
  const { serverId, height, prevId, nonce, root, entries } = block
  return { serverId, height, prevId, nonce, root, count: entries.length }
}

/** Returns the canonical JSON of a header. */
export function headerText(header: Header): string {
  const prevId = header.prevId === null ? 'null' : `"${header.prevId}"`
  return (
    `{"count":${header.count},"height":${header.height},"nonce":${header.nonce},` +
    `"prev_id":${prevId},"root":"${header.root}","serverid":${header.serverId},` +
    `"version":${CHAIN_VERSION}}`
  )
}

/** Parses a header; returns null unless `text` is exactly one header. */
export function parseHeader(text: string): Header | null {
  const value = parseForeignJsonOrNull(text)
  if (!isJsonObject(value)) return null
  const { serverid: serverId, height, prev_id: prevId, nonce, root, count } = value
  if (!isCount(serverId) || !isCount(height) || !isCount(nonce) || !isCount(count)) return null
  if (typeof root !== 'string' || !/^[0-9a-f]{64}$/.test(root)) return null
  const isId = typeof prevId === 'string' && /^[0-9a-f]{128}$/.test(prevId)
  if (height === 0 ? prevId !== null : !isId) return null
  const header = { serverId, height, prevId: isId ? prevId : null, nonce, root, count }
  return headerText(header) === text ? header : null
}

function blockId(header: Header): string {
  return sha512Hex(new TextEncoder().encode(headerText(header)))
}

/** The input of a block: entries as canonical texts, and a timestamp and a 32-byte blind for each. */
export type BlockContent = Pick<Block, 'serverId' | 'entries' | 'timestamps' | 'blinds'>

/**
 * Seals `content` into the block that follows `head`, or into the first block if `head` is null. Equal arguments must
 * give an equal block on every node and in every release, because other nodes store the ids. So the results of this
 * function must never change.
 *
 * Errors: RangeError for invalid content, which indicates a bug. Source: specification, “Ledger block”, rule 1; rule 2
 * leaves `nonce` and `id` open, and docs/decisions/0001-chain-format.md defines them.
 */
export function sealBlock(head: Head | null, content: BlockContent): Block {
  const { serverId, entries, timestamps, blinds } = content
  const fault = shapeFault(content, head)
  if (fault !== null) throw new RangeError(`entry ${fault.index}: ${fault.what}`)
  const commitments = computeCommitments(content)
  const unsealed = {
    serverId,
    height: head === null ? 0 : head.height + 1,
    prevId: head?.id ?? null,
    nonce: 0,
    root: toHex(treeRoot(commitments)),
  }
  const id = blockId({ ...unsealed, count: entries.length })
  return { ...unsealed, id, entries, timestamps, blinds, commitments }
}

/**
 * Returns the commitments of all entries, 32 bytes each. A commitment is the HMAC-SHA-256 of the canonical JSON of
 * `{entry, timestamp}` with the blind of the entry as the key. The root is computed from the commitments instead of the
 * entries, so that erasing an entry changes no id.
 */
function computeCommitments({ entries, timestamps, blinds }: BlockContent): Uint8Array {
  const hmac = new HmacSha256()
  const commitments = new Uint8Array(entries.length * HASH_BYTES)
  const write = hashWriter(commitments)
  for (const [index, entry] of entries.entries()) {
    const message = `{"entry":${entry},"timestamp":${timestamps[index]}}`
    write(hmac.outerMessage(hashAt(blinds, index), message), index * HASH_BYTES)
  }
  return commitments
}

export interface BlockFault {
  readonly code: 'link' | 'counts' | 'time' | 'commitment' | 'root' | 'id' | 'log'
  readonly height: number
  /** Index of the entry, or null if the fault concerns the block as a whole. */
  readonly index: number | null
  /** One sentence, without the height and the index. */
  readonly what: string
}

const NONE_ERASED: ReadonlySet<number> = new Set()

/**
 * Returns the first fault of `block` as the successor of `head`, or null. Recomputes every commitment, the root and the
 * id, and checks the link to `head` and the order of the timestamps. Does not check the content of the entries. For the
 * entries in `erased` (see `findErased`), uses the stored commitments, so the caller must check that these entries may be
 * erased.
 */
export function verifyBlock(
  block: Block,
  head: Head | null,
  erased: ReadonlySet<number> = NONE_ERASED,
): BlockFault | null {
  const fault = (code: BlockFault['code'], what: string, index: number | null = null) => ({
    ...{ code, height: block.height, index, what },
  })
  const { commitments } = block
  const height = head === null ? 0 : head.height + 1
  if (block.height !== height) return fault('link', `a block of height ${height} is expected here`)
  if (block.prevId !== (head?.id ?? null)) {
    return fault('link', 'prev_id is not the id of the previous block')
  }
  const shape = shapeFault(block, head)
  if (shape !== null) return fault(shape.code, shape.what, shape.index)
  if (commitments.length !== block.blinds.length) {
    return fault('counts', 'the number of commitments differs from the number of entries')
  }
  const recomputed = computeCommitments(block)
  for (const index of erased) {
    recomputed.set(hashAt(commitments, index), index * HASH_BYTES)
  }
  for (let at = 0; at < commitments.length; at += 1) {
    if (recomputed[at] === commitments[at]) continue
    const index = Math.floor(at / HASH_BYTES)
    return fault('commitment', 'the entry, its timestamp, blind and commitment do not match', index)
  }
  if (toHex(treeRoot(commitments)) !== block.root) {
    return fault('root', 'the root does not match the commitments')
  }
  if (blockId(toHeader(block)) !== block.id) return fault('id', 'the id does not match the header')
  return null
}

/**
 * Returns the first fault in the numbers of entries, timestamps and blinds, or in the order of the timestamps; null if
 * there is no fault.
 */
function shapeFault(
  { entries, timestamps, blinds }: BlockContent,
  head: Head | null,
): Omit<BlockFault, 'height'> | null {
  const counts = (what: string) => ({ code: 'counts', index: null, what }) as const
  const time = (what: string, index: number) => ({ code: 'time', index, what }) as const
  if (entries.length < 1 || entries.length > ENTRIES_MAX) {
    return counts(`it has ${entries.length} entries`)
  }
  if (timestamps.length !== entries.length)
    return counts('the number of timestamps differs from the number of entries')
  if (blinds.length !== entries.length * HASH_BYTES) {
    return counts('the number of blinds differs from the number of entries')
  }
  let last = head?.timestamp ?? 0
  for (const [index, timestamp] of timestamps.entries()) {
    if (!Number.isSafeInteger(timestamp)) return time('the timestamp is not an integer', index)
    if (timestamp < last) return time('the timestamp is earlier than the previous timestamp', index)
    last = timestamp
  }
  return null
}

/**
 * Returns the indexes of the erased entries of `block`. The blind of an erased entry is 32 zero bytes, and the text of
 * the entry is reduced: the item has only an `id`, or the attachment has no members.
 */
export function findErased(block: Pick<Block, 'blinds'>): ReadonlySet<number> {
  let erased: Set<number> | null = null
  for (let index = 0; index * HASH_BYTES < block.blinds.length; index += 1) {
    if (!isErased(block, index)) continue
    erased ??= new Set()
    erased.add(index)
  }
  return erased ?? NONE_ERASED
}

export function isErased({ blinds }: Pick<Block, 'blinds'>, index: number): boolean {
  // Fast path: the first byte of most blinds is not zero.
  return blinds[index * HASH_BYTES] === 0 && hashAt(blinds, index).every((byte) => byte === 0)
}

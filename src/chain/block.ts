import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { ENTRIES_MAX } from './entry.ts'
import { hmacInto } from './hashing.ts'
import { type Header, headerText } from './header.ts'
import { HASH_BYTES } from './log/hashes.ts'
import { treeHash } from './merkle-tree.ts'

/** The most leading hexadecimal zeros that a node may ask its ids to have. */
const DIFFICULTY_MAX = 4

/**
 * A block of one chain, as stores keep it and peers exchange it.
 *
 * Shapes: 1..ENTRIES_MAX entries in the order they were applied, each the canonical text that was
 * hashed; `timestamps[i]` is when entry i was made, milliseconds since the Unix epoch, never
 * decreasing along the chain; `blinds` and `commitments` hold 32 bytes per entry, back to back.
 */
export interface Block {
  readonly serverId: number
  /** How many blocks stand before it. */
  readonly height: number
  /** 128 lowercase hex digits: SHA-512 of the header. */
  readonly id: string
  readonly prevId: string | null
  readonly nonce: number
  /** Merkle tree hash over the commitments, 64 lowercase hex digits. */
  readonly root: string
  readonly entries: readonly string[]
  readonly timestamps: readonly number[]
  readonly blinds: Uint8Array
  readonly commitments: Uint8Array
}

/** What the next block must know of the one before it. */
export interface Head {
  readonly height: number
  readonly id: string
  /** The timestamp of its last entry. */
  readonly timestamp: number
}

/** The head that `block` is when nothing follows it. */
export function headOf(block: Block): Head {
  return { height: block.height, id: block.id, timestamp: block.timestamps.at(-1) ?? 0 }
}

/** What is sealed: the entries as canonical texts, one timestamp and one 32-byte blind for each. */
export type BlockContent = Pick<Block, 'serverId' | 'entries' | 'timestamps' | 'blinds'>

/**
 * Seals `content` into the block that follows `head`, or into the first block when it is null.
 *
 * Storing the block is the caller's business. Equal arguments give an equal block on every node and
 * in every release: ids are on other nodes' disks, so nothing here may ever change.
 *
 * `difficulty` (0..DIFFICULTY_MAX) asks for the smallest nonce whose id starts with that many zeros;
 * with 0 the nonce is 0. Each step of it makes sealing 16 times as slow.
 * Errors: AssertionError on any other shape, because only our own code calls this.
 * Source: specification, “Ledger block”, rule 1; rule 2 leaves `nonce` and `id` open, and
 * docs/decisions/0001-block-id.md closes it.
 */
export function sealBlock(head: Head | null, content: BlockContent, difficulty = 0): Block {
  const { serverId, entries, timestamps, blinds } = content
  assert(entries.length >= 1 && entries.length <= ENTRIES_MAX)
  assert.equal(timestamps.length, entries.length)
  assert.equal(blinds.length, entries.length * HASH_BYTES)
  assert(difficulty >= 0 && difficulty <= DIFFICULTY_MAX)
  let last = head?.timestamp ?? 0
  for (const timestamp of timestamps) {
    assert(Number.isSafeInteger(timestamp) && timestamp >= last)
    last = timestamp
  }

  const commitments = commitmentsOf(content)
  const unsealed = {
    serverId,
    height: head === null ? 0 : head.height + 1,
    prevId: head?.id ?? null,
    root: treeHash(commitments),
  }
  const count = entries.length
  const zeros = '0'.repeat(difficulty)
  let nonce = 0
  let id = blockId({ ...unsealed, count, nonce })
  while (!id.startsWith(zeros)) {
    nonce += 1
    id = blockId({ ...unsealed, count, nonce })
  }
  return { ...unsealed, nonce, id, entries, timestamps, blinds, commitments }
}

/**
 * The commitments of all entries, 32 bytes each: HMAC-SHA-256 of the canonical JSON of
 * `{entry, timestamp}` under the entry's blind. They stand for the entries in the block's root, so
 * that an entry can be erased later while every id stays what it is.
 */
function commitmentsOf({ entries, timestamps, blinds }: BlockContent): Buffer {
  const commitments = Buffer.allocUnsafe(entries.length * HASH_BYTES)
  for (const [index, entry] of entries.entries()) {
    const message = `{"entry":${entry},"timestamp":${timestamps[index]}}`
    hmacInto(commitments, index * HASH_BYTES, blinds, index * HASH_BYTES, message)
  }
  return commitments
}

/** The header of `block`. */
export function headerOf(block: Block): Header {
  const { serverId, height, prevId, nonce, root, entries } = block
  return { serverId, height, prevId, nonce, root, count: entries.length }
}

function blockId(header: Header): string {
  return hash('sha512', headerText(header), 'hex')
}

/** What does not hold in a block; `index` is the entry's, or null when it is the block as such. */
export interface BlockFault {
  readonly height: number
  readonly index: number | null
  /** One sentence without the height and the index. */
  readonly what: string
}

const NONE_ERASED: ReadonlySet<number> = new Set()

/**
 * The first thing in `block` that does not follow from `head` and from its own content, or null.
 *
 * Recomputes every commitment, the root and the id, and compares the link and the timestamps. What
 * the entries say is not looked at. Of the entries in `erased` the commitment is taken as it is:
 * whether they may be erased is for the caller to find out (`erasedIn`).
 */
export function verifyBlock(
  block: Block,
  head: Head | null,
  erased: ReadonlySet<number> = NONE_ERASED,
): BlockFault | null {
  const fault = (what: string, index: number | null = null): BlockFault => ({
    height: block.height,
    index,
    what,
  })
  const { entries, timestamps, blinds, commitments } = block
  const height = head === null ? 0 : head.height + 1
  if (block.height !== height) return fault(`a block of height ${height} must stand here`)
  if (block.prevId !== (head?.id ?? null)) return fault('prev_id is not the id of the block before')
  if (entries.length < 1 || entries.length > ENTRIES_MAX) {
    return fault(`it holds ${entries.length} entries`)
  }
  if (timestamps.length !== entries.length) return fault('there is not one timestamp per entry')
  if (blinds.length !== entries.length * HASH_BYTES)
    return fault('there is not one blind per entry')
  if (commitments.length !== blinds.length) return fault('there is not one commitment per entry')
  let last = head?.timestamp ?? 0
  for (const [index, timestamp] of timestamps.entries()) {
    if (!Number.isSafeInteger(timestamp)) return fault('the timestamp is not an integer', index)
    if (timestamp < last) return fault('the timestamp is before the one in front of it', index)
    last = timestamp
  }
  const recomputed = commitmentsOf(block)
  for (const index of erased) {
    recomputed.set(hashAt(commitments, index), index * HASH_BYTES)
  }
  if (recomputed.compare(commitments) !== 0) {
    const index = recomputed.findIndex((byte, at) => byte !== commitments[at])
    return fault(
      'the entry, its timestamp, blind and commitment do not match',
      Math.floor(index / HASH_BYTES),
    )
  }
  if (treeHash(commitments) !== block.root) return fault('the root is not that of its commitments')
  if (blockId(headerOf(block)) !== block.id) return fault('the id is not that of its header')
  return null
}

/**
 * The indexes of the entries of `block` that were erased: they have no blind, 32 zeros stand there, and
 * in the place of the entry stands what is left of it, with an item that has an `id` only or an
 * attachment without members.
 */
export function erasedIn(block: Pick<Block, 'blinds'>): ReadonlySet<number> {
  let erased: Set<number> | null = null
  for (let index = 0; index * HASH_BYTES < block.blinds.length; index += 1) {
    if (!isErased(block, index)) continue
    erased ??= new Set()
    erased.add(index)
  }
  return erased ?? NONE_ERASED
}

/** Whether entry `index` of the block was erased: the same of one entry. */
export function isErased({ blinds }: Pick<Block, 'blinds'>, index: number): boolean {
  const at = index * HASH_BYTES
  // Nearly every blind has something else than zero in front.
  if (blinds[at] !== 0 || blinds[at + 1] !== 0) return false
  return hashAt(blinds, index).every((byte) => byte === 0)
}

/** Hash `index` of hashes that stand back to back. */
export function hashAt(hashes: Uint8Array, index: number): Uint8Array {
  return hashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
}

/** The block as `GET /api/ledgers` shows it, as JSON text: exactly the five documented fields. */
export function blockJson(block: Block): string {
  const prevId = block.prevId === null ? 'null' : `"${block.prevId}"`
  return (
    `{"prev_id":${prevId},"body":[${block.entries.join(',')}],` +
    `"timestamps":[${block.timestamps.join(',')}],"nonce":${block.nonce},"id":"${block.id}"}`
  )
}

import type { Json } from '../base/json.ts'
import {
  type Block,
  ENTRIES_BYTES_MAX,
  entryOf,
  erasedIn,
  type Head,
  isErased,
  packPosition,
  parseBlockParts,
  RawBlock,
  RawEntry,
  verifyBlock,
} from '../chain/index.ts'
import { type Effect, effectOf, entryTextOf } from '../storage/index.ts'
import { LedgerError } from './errors.ts'
import { checkDatabaseName, checkItemId } from './names.ts'

/** A received block with the effects of its entries. */
export interface DecodedBlock {
  readonly block: Block
  readonly effects: readonly Effect[]
}

/**
 * The reason why a value is not a valid block. `index` is the index of the invalid entry, or null if no single entry is
 * the reason.
 */
export interface UndecodableBlock {
  readonly index: number | null
  readonly what: string
}

/**
 * Decodes a block of node `serverId` in the format of `provenBlockJson`. Checks the format and the names of each entry,
 * but neither hashes nor the position in the chain: `verifyBlock` checks these.
 */
export function decodeBlock(
  value: Json | RawBlock,
  serverId: number,
  height: number,
): DecodedBlock | UndecodableBlock {
  const parts = value instanceof RawBlock ? value.parts : parseBlockParts(value)
  if (typeof parts === 'string') return { index: null, what: parts }
  const { body, ...sealed } = parts
  const effects: Effect[] = []
  const entries: string[] = []
  let bytes = 0
  for (const [index, entry] of body.entries()) {
    const effect = effectIn(entry, serverId, packPosition(height, index))
    if (typeof effect === 'string') return { index, what: effect }
    if (effect.kind === 'erased_attachment' && !isErased(sealed, index)) {
      return { index, what: 'it has no attachment metadata' }
    }
    const text = entry instanceof RawEntry ? entry.text : entryTextOf(effect, serverId)
    bytes += Buffer.byteLength(text)
    // Checked here too, because a text that is not canonical can be shorter than the canonical text.
    if (bytes > ENTRIES_BYTES_MAX) {
      return { index, what: `the entries are longer than ${ENTRIES_BYTES_MAX} bytes` }
    }
    effects.push(effect)
    entries.push(text)
  }
  return { block: { ...sealed, serverId, entries }, effects }
}

/** Decodes the block that follows `head` (null for the first block), and verifies it. */
export function decodeNextBlock(
  value: Json | RawBlock,
  serverId: number,
  head: Head | null,
): DecodedBlock | UndecodableBlock {
  const decoded = decodeBlock(value, serverId, head === null ? 0 : head.height + 1)
  if ('what' in decoded) return decoded
  return verifyBlock(decoded.block, head, erasedIn(decoded.block)) ?? decoded
}

/** Returns the effect of the entry, or the reason why the entry is invalid. */
function effectIn(value: Json | RawEntry, serverId: number, position: number): Effect | string {
  const entry = value instanceof RawEntry ? value : entryOf(value)
  if (entry === null) return 'it is not an entry'
  if (!(entry instanceof RawEntry) && entry.serverid !== serverId) {
    return 'the entry has another server id'
  }
  try {
    const effect =
      entry instanceof RawEntry ? rawEffect(entry, position) : effectOf(entry, position)
    checkDatabaseName(effect.db)
    if ('id' in effect) checkItemId(effect.id)
    if ('of' in effect) checkItemId(effect.of)
    return effect
  } catch (error) {
    // The entry has an invalid name, or a value that canonical JSON cannot represent.
    return error instanceof LedgerError ? error.message : 'it has no canonical form'
  }
}

/** Like `effectOf`, for a `RawEntry`, whose server id is already checked. */
function rawEffect({ method: kind, db, id, itemText: text }: RawEntry, position: number): Effect {
  return { kind, position, db, id, text }
}

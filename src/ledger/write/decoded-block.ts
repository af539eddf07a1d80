import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import {
  type Block,
  type ChainVerifier,
  decodeEntry,
  ENTRIES_BYTES_MAX,
  isErased,
  packPosition,
  type RawBlock,
  RawEntry,
} from '../../chain/index.ts'
import { type Effect, toEffect, toEntryText } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { ITEM_BYTES_MAX } from './item.ts'
import { requireAttachmentName, requireDatabaseName, requireItemId } from './names.ts'

/** Maximum characters of an entry without an item: enough for an erasure of 10,000 entries. */
const OTHER_CHARACTERS_MAX = 512 * 1024

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
 * Decodes a block of node `serverId`. Checks the format and the names of each entry, but neither hashes nor the position
 * in the chain: `ChainVerifier` checks these.
 */
export function decodeBlock(
  { body, ...sealed }: RawBlock,
  serverId: number,
  height: number,
): DecodedBlock | UndecodableBlock {
  const effects: Effect[] = []
  const entries: string[] = []
  let bytes = 0
  for (const [index, entry] of body.entries()) {
    const effect = decodeEffect(entry, serverId, packPosition(height, index))
    if (typeof effect === 'string') return { index, what: effect }
    if (effect.kind === 'erased_attachment' && !isErased(sealed, index)) {
      return { index, what: 'it has no attachment metadata' }
    }
    const text = typeof entry === 'string' ? entry : entry.text
    bytes += Buffer.byteLength(text)
    if (bytes > ENTRIES_BYTES_MAX) {
      return { index, what: `the entries are longer than ${ENTRIES_BYTES_MAX} bytes` }
    }
    effects.push(effect)
    entries.push(text)
  }
  return { block: { ...sealed, serverId, entries }, effects }
}

export function decodeNextBlock(
  value: RawBlock,
  serverId: number,
  chain: ChainVerifier,
): DecodedBlock | UndecodableBlock {
  const decoded = decodeBlock(value, serverId, chain.size)
  if ('what' in decoded) return decoded
  return chain.push(decoded.block) ?? decoded
}

/** Returns the effect of the entry, or the reason why the entry is invalid. */
function decodeEffect(
  value: string | RawEntry,
  serverId: number,
  position: number,
): Effect | string {
  try {
    const effect =
      value instanceof RawEntry
        ? rawEffect(value, position)
        : otherEffect(value, serverId, position)
    if (typeof effect === 'string') return effect
    requireDatabaseName(effect.db)
    if ('id' in effect) requireItemId(effect.id)
    if ('of' in effect) requireItemId(effect.of)
    if ('attachment' in effect) requireAttachmentName(effect.attachment.name)
    return effect
  } catch (error) {
    // The entry has an invalid name, or a value that canonical JSON cannot represent.
    return error instanceof LedgerError ? error.message : 'it has no canonical form'
  }
}

function rawEffect(entry: RawEntry, position: number): Effect | string {
  const { method: kind, db, id, itemText: text } = entry
  if (text.length * 3 <= ITEM_BYTES_MAX || Buffer.byteLength(text) <= ITEM_BYTES_MAX) {
    return { kind, position, db, id, text }
  }
  return `its item is longer than ${ITEM_BYTES_MAX} bytes`
}

/** Returns the effect of an entry without an item. */
function otherEffect(text: string, serverId: number, position: number): Effect | string {
  const entry =
    text.length > OTHER_CHARACTERS_MAX ? null : decodeEntry(parseForeignJsonOrNull(text))
  if (entry === null) return 'it is not an entry'
  if (entry.serverid !== serverId) return 'the entry has another server id'
  const effect = toEffect(entry, position)
  return toEntryText(effect, entry) === text ? effect : 'it has no canonical form'
}

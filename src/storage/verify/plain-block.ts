import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { type Block, erasedIn, rawEntry } from '../../chain/index.ts'
import type { Creations, StoreReader } from '../store.ts'

/**
 * A block that does nothing but create items, each of which stands in the databases as it was created.
 * Most blocks are like that. Whether its databases are those of the chain is for the comparison.
 */
export interface PlainBlock {
  readonly height: number
  readonly id: string
  /** How many entries it has. */
  readonly count: number
  readonly creations: readonly Creations[]
}

/** `block`, whose hashes hold, as a plain block, or null when it is none. Errors: STORE_DAMAGED. */
export async function plainBlock(block: Block, store: StoreReader): Promise<PlainBlock | null> {
  const { height, id, entries } = block
  if (erasedIn(block).size > 0) return null
  const ids: string[] = []
  for (const entry of entries) {
    const itemId = itemIdIn(entry, block.serverId)
    // Ids are compared line by line.
    if (itemId === null || itemId.includes('\n')) return null
    ids.push(itemId)
  }
  const creations = await store.plainCreations(height, ids)
  return creations === null ? null : { height, id, count: entries.length, creations }
}

/** The id of the item that `entry` is about, or null unless the entry is in canonical form. */
function itemIdIn(entry: string, serverId: number): string | null {
  const raw = rawEntry(entry, serverId)
  if (raw !== null) return raw.id
  try {
    const value: Json = parseJson(entry)
    if (!isJsonObject(value) || canonicalJson(value) !== entry) return null
    const { item } = value
    return isJsonObject(item) && typeof item.id === 'string' ? item.id : null
  } catch {
    return null
  }
}

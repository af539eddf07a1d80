import { canonicalString } from '../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'

/** An item as stored: any JSON object with a string `id`. */
export type Item = JsonObject & { id: string }

/**
 * One recorded change, spelled as the specification spells it (“Ledger entry”).
 *
 * `serverid` is the node that made the change. `delete_db` is ours: docs/decisions/0002-methods.md.
 */
export type Entry =
  | { serverid: number; method: 'create_db' | 'delete_db'; db: string }
  | { serverid: number; method: 'create_item' | 'update_item'; db: string; item: Item }
  | { serverid: number; method: 'delete_item'; db: string; id: string }

/** Entries that one block may hold; a larger unit of work is refused. */
export const ENTRIES_MAX = 10_000

/**
 * The canonical text (RFC 8785) of an entry, from parts that are canonical already.
 *
 * What is hashed is exactly this text, and it is what stores keep: an item is put into canonical
 * form once, when it arrives. `itemText` is the canonical text of the item, with its id.
 */
export const entryText = {
  /** A `create_db` or `delete_db` entry. */
  database(method: 'create_db' | 'delete_db', serverId: number, db: string): string {
    return `{"db":${canonicalString(db)},"method":"${method}","serverid":${serverId}}`
  },
  /** A `create_item` or `update_item` entry. */
  item(
    method: 'create_item' | 'update_item',
    serverId: number,
    db: string,
    itemText: string,
  ): string {
    return `{"db":${canonicalString(db)},"item":${itemText},"method":"${method}","serverid":${serverId}}`
  },
  /** A `delete_item` entry. */
  deleteItem(serverId: number, db: string, id: string): string {
    return `{"db":${canonicalString(db)},"id":${canonicalString(id)},"method":"delete_item","serverid":${serverId}}`
  },
}

/**
 * `value` as an entry, or null when it does not have the shape of one: a known method with exactly
 * its members. For texts that come from a disk or from another node.
 */
export function entryOf(value: Json): Entry | null {
  if (!isJsonObject(value)) return null
  const { serverid, method, db, item, id } = value
  if (typeof serverid !== 'number' || !Number.isSafeInteger(serverid)) return null
  if (typeof db !== 'string') return null
  const members = Object.keys(value).length
  switch (method) {
    case 'create_db':
    case 'delete_db':
      return members === 3 ? { serverid, method, db } : null
    case 'create_item':
    case 'update_item':
      return members === 4 && isItem(item) ? { serverid, method, db, item } : null
    case 'delete_item':
      return members === 4 && typeof id === 'string' ? { serverid, method, db, id } : null
    default:
      return null
  }
}

function isItem(value: Json | undefined): value is Item {
  return isJsonObject(value) && typeof value.id === 'string'
}

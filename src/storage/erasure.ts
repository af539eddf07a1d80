import { canonicalString } from '../base/canonical-json.ts'
import { parseJson } from '../base/json.ts'
import { type Entry, entryOf, entryText } from '../chain/index.ts'

/**
 * What is left of the entry `text` when it is erased: the same with an item that has an `id` only, or an
 * attachment without members. Null when nothing of it can be erased: it is about another item, or has
 * no content, as the deletion of an item.
 */
export function erasedEntryText(text: string, db: string, id: string): string | null {
  const entry = parsedEntry(text)
  if (entry === null || entry.db !== db) return null
  if ('attachment' in entry && entry.id === id) {
    return entryText.attachment(entry.method, entry.serverid, db, id, null)
  }
  if (!('item' in entry) || entry.item.id !== id) return null
  return entryText.item(entry.method, entry.serverid, db, `{"id":${canonicalString(id)}}`)
}

/** The entry that `text` is, or null. */
export function parsedEntry(text: string): Entry | null {
  try {
    return entryOf(parseJson(text))
  } catch {
    return null
  }
}

import { canonicalString } from '../../base/canonical-json.ts'
import { parseJson } from '../../base/json.ts'
import {
  type Block,
  decodeEntry,
  type Entry,
  entryText,
  findErased,
  packPosition,
} from '../../chain/index.ts'
import type { Effect } from './effect.ts'

/**
 * Returns the erased form of the entry `text`: the same entry without author and reason, and with an item that has only
 * an `id`, or an attachment without members. Returns null if the entry cannot be erased, because it concerns another item
 * or no item.
 */
export function erasedEntryText(text: string, db: string, id: string): string | null {
  const entry = parseEntry(text)
  if (entry === null || entry.db !== db) return null
  if ('attachment' in entry && entry.id === id) {
    return entryText.attachment(entry.method, entry.serverid, { db, id }, null)
  }
  if (entry.method === 'delete_item' && entry.id === id) {
    return entryText.deleteItem(entry.serverid, db, id)
  }
  if (!('item' in entry) || entry.item.id !== id) return null
  return entryText.item(entry.method, entry.serverid, db, erasedItemText(id))
}

/** Returns the text of an item that keeps only its `id`. */
export function erasedItemText(id: string): string {
  return `{"id":${canonicalString(id)}}`
}

/** Returns the parsed entry, or null if `text` is not an entry. */
export function parseEntry(text: string): Entry | null {
  try {
    return decodeEntry(parseJson(text))
  } catch {
    return null
  }
}

/**
 * Checks, without a store, that a later entry erases each erased entry of a chain. The blocks must be checked from the
 * beginning of the chain. Memory grows only with the erased entries.
 */
export class ErasureCheck {
  /** Texts of erased entries whose erasing entry has not been read yet, by position. */
  readonly #pending = new Map<number, string>()
  #erased = 0

  /** Number of erased entries so far. */
  get erased(): number {
    return this.#erased
  }

  /** Checks the next block with its effects; returns its first wrong entry, or null. */
  block(block: Block, effects: readonly Effect[]): { index: number; what: string } | null {
    for (const index of findErased(block)) {
      this.#pending.set(packPosition(block.height, index), block.entries[index] ?? '')
      this.#erased += 1
    }
    for (const [index, effect] of effects.entries()) {
      if (effect.kind !== 'erase_item') continue
      for (const position of effect.positions) {
        const text = this.#pending.get(position)
        if (text === undefined || erasedEntryText(text, effect.db, effect.of) !== text) {
          return { index, what: 'the entry erases another entry, which still has its content' }
        }
        this.#pending.delete(position)
      }
    }
    return null
  }

  /** Call after the last block. Returns a description of the missing erasures, or null. */
  end(): string | null {
    return this.#pending.size === 0
      ? null
      : `${this.#pending.size} entries have no blind, but no entry erases them`
  }
}

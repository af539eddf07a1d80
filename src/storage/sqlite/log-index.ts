import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Block } from '../../chain/index.ts'
import { StoreError } from '../errors.ts'

/** The index of the log grows by so much, for so many pages of the log (SQLite, "WAL-mode file format"). */
const PART_BYTES = 32_768
const PART_PAGES = 4_096
/** The first part has a header. */
const HEADER_PAGES = 34
/** With less than this, a disk is full as far as the index is concerned. */
const ROOM_BYTES = 1_048_576

/** Pages of the log that a piece of upkeep fills at most. */
export const PAGES_OF_UPKEEP = 2_048
/** Pages of the log that blocks of a mirror fill which are taken together. */
export const PAGES_TOGETHER = 16_384
const PAGE_BYTES = 4_096
/** Pages that any transaction touches, and those that one entry does, at most: trees and indexes. */
const PAGES_OF_BLOCK = 64
const PAGES_OF_ENTRY = 24

/** How many pages of the log a block fills at most: what it holds is stored up to three times. */
export function pagesOf({ entries }: Block): number {
  let characters = 0
  for (const entry of entries) characters += entry.length
  const texts = Math.ceil((9 * characters) / PAGE_BYTES)
  return PAGES_OF_BLOCK + entries.length * PAGES_OF_ENTRY + texts
}

/**
 * Keeps a write from needing a longer index of the log (`ledger.db-shm`) on a disk that has no room for
 * it. The log itself is made long beforehand, so such a write gets as far as the disk: the engine would
 * find out when the pages are in the log already, and then nobody knows whether they count after a crash.
 */
export class LogIndex {
  readonly #folder: string
  readonly #path: string

  /** `path` is the database file. */
  constructor(path: string) {
    this.#folder = dirname(path)
    this.#path = `${path}-shm`
  }

  /**
   * To be asked before a transaction of at most `pages`, the log having `logPages()` of them.
   * Costs some microseconds. Errors: STORE_FULL.
   */
  expectRoom(pages: number, logPages: () => number): void {
    const { bavail, bsize } = statfsSync(this.#folder)
    if (bavail * bsize >= ROOM_BYTES) return
    const bytes = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0
    const indexed = Math.floor(bytes / PART_BYTES) * PART_PAGES - HEADER_PAGES
    if (logPages() + pages <= indexed) return
    throw new StoreError('STORE_FULL', 'there is no room left on the disk')
  }
}

import { unpackPosition } from '../../chain/index.ts'
import type { StoredIndex } from '../port/store.ts'
import type { Row } from '../sql/rows.ts'

/** Value of `built` for a complete index, which every later append updates. */
export const READY = Number.MAX_SAFE_INTEGER
/** Maximum number of items added, and of entries removed, in one step of maintenance. */
export const BUILD_ITEMS = 500
export const PURGE_ENTRIES = 2_000
/** Number of characters of items after which a step of a build ends. */
export const BUILD_CHARACTERS = 1_048_576

/**
 * Converts the columns database name, its creation, path, built, and the height of the head. Progress is
 * counted in blocks, because counting the items of a large database takes too long.
 */
export function indexOf([name, created, path, built, head]: Row): StoredIndex {
  const first = unpackPosition(Number(created)).height
  const total = Number(head) - first + 1
  const isReady = built === READY
  const reached = Math.max(first, unpackPosition(Math.max(0, Number(built))).height)
  return {
    db: String(name),
    path: String(path),
    isReady,
    done: isReady ? total : reached - first,
    total,
  }
}

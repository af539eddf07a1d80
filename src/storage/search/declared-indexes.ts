/** Value of `built` for a complete index, which every later append updates. */
export const READY = Number.MAX_SAFE_INTEGER
/** Value of `built` for a removed index, while its entries are deleted in steps. */
export const REMOVED = -2
/** Maximum number of items added, and of entries removed, in one step of maintenance. */
export const BUILD_ITEMS = 500
export const PURGE_ENTRIES = 2_000
/** Number of bytes of items after which a step of a build ends. */
export const BUILD_BYTES = 1_048_576

import type { PlacedItem, StoreReader } from '../store.ts'

/** Rows read ahead at a time. */
const ROWS_PER_PAGE = 500

/** Goes through the items of all databases in the order of creation, reading them page by page. */
export class RowCursor {
  readonly #store: StoreReader
  /** Rows in the order of creation, and which of them is the next. */
  #rows: readonly PlacedItem[] = []
  #next = 0
  /** Rows created up to here have been read; kept apart, because the last page is empty. */
  #readUpTo = -1

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** The next row when it has been read, else undefined: then `peek` has to be asked. */
  get read(): PlacedItem | undefined {
    return this.#rows[this.#next]
  }

  /** The next row, or null behind the last one. */
  async peek(): Promise<PlacedItem | null> {
    if (this.#next === this.#rows.length) {
      this.#readUpTo = Math.max(this.#rows.at(-1)?.created ?? -1, this.#readUpTo)
      this.#rows = await this.#store.itemsByCreation(this.#readUpTo, ROWS_PER_PAGE)
      this.#next = 0
    }
    return this.#rows[this.#next] ?? null
  }

  /** Goes past the next row, which has been read. */
  pass(): void {
    this.#next += 1
  }

  /** Whether the next row was created before `position`; reads only when that is not known. */
  async isBefore(position: number): Promise<boolean> {
    if (this.read === undefined && this.#readUpTo >= position - 1) return false
    const row = await this.peek()
    return row !== null && row.created < position
  }

  /** Goes past all rows created before `position`. */
  skipTo(position: number): void {
    while (this.read !== undefined && this.read.created < position) this.#next += 1
    if (this.read === undefined) this.#readUpTo = Math.max(this.#readUpTo, position - 1)
  }
}

/** Rows read at once. */
const ROWS_PER_PAGE = 500

/** Iterates over rows in the order of their positions, page by page. */
export class RowCursor<Row> {
  readonly #readPage: (after: number, limit: number) => Promise<readonly Row[]>
  readonly #positionOf: (row: Row) => number
  #page: readonly Row[] = []
  #next = 0
  /** Rows up to this position have been read or skipped. */
  #readUpTo = -1
  #hasEnded = false

  constructor(
    readPage: (after: number, limit: number) => Promise<readonly Row[]>,
    positionOf: (row: Row) => number,
  ) {
    this.#readPage = readPage
    this.#positionOf = positionOf
  }

  /** The next row if it is in memory; otherwise `peek` reads it. */
  get buffered(): Row | undefined {
    return this.#page[this.#next]
  }

  /** Returns the next row, or null after the last one. */
  async peek(): Promise<Row | null> {
    if (this.#next === this.#page.length && !this.#hasEnded) {
      const last = this.#page.at(-1)
      if (last !== undefined) this.#readUpTo = Math.max(this.#readUpTo, this.#positionOf(last))
      this.#page = await this.#readPage(this.#readUpTo, ROWS_PER_PAGE)
      this.#next = 0
      this.#hasEnded = this.#page.length === 0
    }
    return this.buffered ?? null
  }

  /** Moves past the next row, which has been read. */
  advance(): void {
    this.#next += 1
  }

  /** Whether the next row is before `position`; reads only if that is not known. */
  async isBefore(position: number): Promise<boolean> {
    if (this.buffered === undefined && this.#readUpTo >= position - 1) return false
    const row = await this.peek()
    return row !== null && this.#positionOf(row) < position
  }

  /** Moves past all rows before `position`. */
  skipTo(position: number): void {
    for (let row = this.buffered; row !== undefined; row = this.buffered) {
      if (this.#positionOf(row) >= position) return
      this.#next += 1
    }
    this.#readUpTo = Math.max(this.#readUpTo, position - 1)
  }
}

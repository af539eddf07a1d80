import { StoreError } from '../errors.ts'
import { READY } from './indexes.ts'
import type { StatementCache, Value } from './statements.ts'
import type { CompiledWhere } from './where-sql.ts'

/** Gives the positions of items that may be wanted, piece by piece. */
export interface Source {
  /** The path of the index that is used, or null. */
  readonly index: string | null
  /** Whether all that it gives match; else each must be held against the predicate. */
  readonly isExact: boolean
  /** Whether they come in the order that was asked for, not in that of creation. */
  readonly isOrdered: boolean
  /** A bounded piece, perhaps empty, and whether it was the last. */
  next(): { readonly positions: readonly number[]; readonly isEnd: boolean }
}

/** A declared index that has all items. */
export interface ReadyIndex {
  readonly number: number
  readonly database: number
  readonly path: string
}

/** Rows gone through in one piece. */
const PIECE_ROWS = 1_000
/** A piece ends when it has come to this much work: bytes of items, times what is asked of each. */
const PIECE_WORK = 4 * 1_048_576

/** Everything, for a scan, when there is no predicate. */
const ALL: CompiledWhere = { text: '1', values: [], isExact: true }

/** Goes through the items of a database, or through those at one key of an index, as created. */
export class CreationSource implements Source {
  readonly isOrdered = false
  readonly #statements: StatementCache
  readonly #database: number
  readonly #where: CompiledWhere
  /** The index and key that narrow it; null for a scan. */
  #narrowed: {
    readonly index: ReadyIndex
    readonly key: Uint8Array
    readonly isAll: boolean
  } | null
  #after: number

  /** `isAll`: everything at the key is wanted, and no item need be looked at. */
  constructor(
    statements: StatementCache,
    database: number,
    where: CompiledWhere | null,
    after: number,
    narrowed: { index: ReadyIndex; key: Uint8Array; isAll: boolean } | null = null,
  ) {
    this.#statements = statements
    this.#database = database
    this.#where = where ?? ALL
    this.#after = after
    this.#narrowed = narrowed
  }

  get index(): string | null {
    return this.#narrowed?.index.path ?? null
  }

  get isExact(): boolean {
    return this.#where.isExact
  }

  next() {
    // When the index is taken away meanwhile, the items behind are gone through one by one.
    if (this.#narrowed !== null && !isThere(this.#statements, this.#narrowed.index)) {
      this.#narrowed = null
    }
    const positions: number[] = []
    let rows = 0
    let work = 0
    for (const [created, length, isHit] of this.#rows()) {
      this.#after = Number(created)
      if (isHit === 1) positions.push(this.#after)
      rows += 1
      work += Number(length) * (1 + this.#where.values.length)
      if (work >= PIECE_WORK) return { positions, isEnd: false }
    }
    return { positions, isEnd: rows < PIECE_ROWS }
  }

  #rows() {
    const { text, values } = this.#where
    if (this.#narrowed === null) {
      return this.#statements
        .get(
          `SELECT i.created, octet_length(i.item), ${text} FROM items AS i
            WHERE i.db = ? AND i.created > ? ORDER BY i.created LIMIT ${PIECE_ROWS}`,
        )
        .iterate(...values, this.#database, this.#after)
    }
    const { index, key, isAll } = this.#narrowed
    if (isAll) {
      return this.#statements
        .get(
          `SELECT created, 0, 1 FROM index_entries
            WHERE number = ? AND key = ? AND created > ? ORDER BY created LIMIT ${PIECE_ROWS}`,
        )
        .all(index.number, key, this.#after)
    }
    return this.#statements
      .get(
        `SELECT e.created, octet_length(i.item), ${text}
          FROM index_entries AS e CROSS JOIN items AS i ON i.created = e.created
          WHERE e.number = ? AND e.key = ? AND e.created > ?
          ORDER BY e.created LIMIT ${PIECE_ROWS}`,
      )
      .iterate(...values, index.number, key, this.#after)
  }
}

/** Goes through all items in the order of an index. */
export class OrderSource implements Source {
  readonly isOrdered = true
  readonly index: string
  readonly #statements: StatementCache
  readonly #index: ReadyIndex
  readonly #where: CompiledWhere
  readonly #descending: boolean
  #key: Uint8Array
  #created: number

  constructor(
    statements: StatementCache,
    index: ReadyIndex,
    where: CompiledWhere | null,
    descending: boolean,
  ) {
    this.index = index.path
    this.#statements = statements
    this.#index = index
    this.#where = where ?? ALL
    this.#descending = descending
    this.#key = descending ? Buffer.of(0xff) : Buffer.alloc(0)
    this.#created = -1
  }

  get isExact(): boolean {
    return this.#where.isExact
  }

  next() {
    if (!isThere(this.#statements, this.#index)) {
      throw new StoreError('SEARCH_INTERRUPTED', `the index ${this.index} was removed meanwhile`)
    }
    const positions: number[] = []
    let rows = 0
    let work = 0
    for (const [created, length, isHit, key] of this.#rows()) {
      this.#created = Number(created)
      if (key instanceof Uint8Array) this.#key = key
      if (isHit === 1) positions.push(this.#created)
      rows += 1
      work += Number(length) * (1 + this.#where.values.length)
      if (work >= PIECE_WORK) return { positions, isEnd: false }
    }
    return { positions, isEnd: rows < PIECE_ROWS }
  }

  #rows() {
    const { text, values } = this.#where
    const [beyond, direction] = this.#descending ? ['<', 'DESC'] : ['>', 'ASC']
    return this.#statements
      .get(
        `SELECT e.created, octet_length(i.item), ${text}, e.key
          FROM index_entries AS e CROSS JOIN items AS i ON i.created = e.created
          WHERE e.number = ? AND e.sorts = 1 AND (e.key, e.created) ${beyond} (?, ?)
          ORDER BY e.key ${direction}, e.created ${direction} LIMIT ${PIECE_ROWS}`,
      )
      .iterate(...values, this.#index.number, this.#key, this.#created)
  }
}

/** Goes through positions that an index gave at once, as created; all of them are judged again. */
export class ListSource implements Source {
  readonly isOrdered = false
  readonly isExact = false
  readonly index: string
  readonly #positions: readonly number[]
  #at = 0

  constructor(index: ReadyIndex, positions: readonly number[]) {
    this.index = index.path
    this.#positions = positions
  }

  next() {
    const positions = this.#positions.slice(this.#at, this.#at + PIECE_ROWS)
    this.#at += PIECE_ROWS
    return { positions, isEnd: this.#at >= this.#positions.length }
  }
}

function isThere(statements: StatementCache, { number, database, path }: ReadyIndex): boolean {
  const values: Value[] = [number, database, path, READY]
  const sql = 'SELECT 1 FROM indexes WHERE number = ? AND db = ? AND path = ? AND built = ?'
  return statements.get(sql).get(...values) !== undefined
}

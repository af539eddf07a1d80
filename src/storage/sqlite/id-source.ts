import type { Condition, OrderTerm, Where } from '../../filter/index.ts'
import type { Source } from './search-source.ts'
import type { StatementCache } from './statements.ts'
import { type CompiledWhere, compileWhere } from './where-sql.ts'

/** Ids from `from` on, up to but without `to`. */
export interface IdRange {
  readonly from: string
  readonly to: string
}

/** Rows gone through in one piece, and the bytes of items after which it ends. */
const PIECE_ROWS = 1_000
const PIECE_BYTES = 1_048_576
const ALL: CompiledWhere = { text: '1', values: [], isExact: true }

/** The range of ids that `condition` asks for, where it names both its ends like `IdRange`. */
export function idRangeOf({ path, test, negated }: Condition): IdRange | null {
  if (negated || path.length !== 1 || path[0] !== 'id' || test.kind !== 'range') return null
  const { from, to } = test
  if (typeof from?.value !== 'string' || typeof to?.value !== 'string') return null
  return from.inclusive && !to.inclusive ? { from: from.value, to: to.value } : null
}

/** Whether `order` is that of ids alone. */
function isOrderOfIds(order: readonly OrderTerm[]): boolean {
  const [term] = order
  return order.length === 1 && term?.path.length === 1 && term.path[0] === 'id'
}

/** Goes through the items of a database whose ids are in a range, in the order of their ids. */
export class IdSource implements Source {
  readonly index = 'id'
  readonly isOrdered: boolean
  readonly #statements: StatementCache
  readonly #database: number
  readonly #where: CompiledWhere
  readonly #descending: boolean
  #from: string
  #to: string
  /** Whether `#from` itself belongs to the range: it does until the first piece was read. */
  #isFirst = true

  /** `where` is the predicate, of which `condition` with the range need not be asked again. */
  constructor(
    statements: StatementCache,
    database: number,
    { from, to }: IdRange,
    {
      where,
      condition,
      order,
    }: { where: Where; condition: Condition; order: readonly OrderTerm[] },
  ) {
    this.#statements = statements
    this.#database = database
    this.#from = from
    this.#to = to
    const rest = without(where, condition)
    this.#where = rest === null ? ALL : compileWhere(rest, 'i.item')
    this.isOrdered = isOrderOfIds(order)
    this.#descending = this.isOrdered && order[0]?.descending === true
  }

  get isExact(): boolean {
    return this.#where.isExact
  }

  next() {
    const positions: number[] = []
    let rows = 0
    let bytes = 0
    for (const [created, length, isHit, id] of this.#rows()) {
      this.#passed(String(id))
      if (isHit === 1) positions.push(Number(created))
      rows += 1
      bytes += Number(length)
      if (bytes >= PIECE_BYTES) return { positions, isEnd: false }
    }
    return { positions, isEnd: rows < PIECE_ROWS }
  }

  #passed(id: string): void {
    if (this.#descending) this.#to = id
    else {
      this.#from = id
      this.#isFirst = false
    }
  }

  #rows() {
    const { text, values } = this.#where
    // Where nothing is asked of the items, the index of ids has all that is wanted.
    const length = this.#where === ALL ? '0' : 'octet_length(i.item)'
    return this.#statements
      .get(
        `SELECT i.created, ${length}, ${text}, i.id FROM items AS i INDEXED BY items_by_id
          WHERE i.db = ? AND i.id ${this.#isFirst ? '>=' : '>'} ? AND i.id < ?
          ORDER BY i.id ${this.#descending ? 'DESC' : 'ASC'} LIMIT ${PIECE_ROWS}`,
      )
      .iterate(...values, this.#database, this.#from, this.#to)
  }
}

/** How many items of a database have ids in the range. */
export function countIds(
  statements: StatementCache,
  database: number,
  { from, to }: IdRange,
): number {
  const sql =
    'SELECT count(*) FROM items INDEXED BY items_by_id WHERE db = ? AND id >= ? AND id < ?'
  return Number(statements.get(sql).get(database, from, to)?.[0] ?? 0)
}

/** `where` but for `condition`, where that is all of it or directly part of all. */
function without(where: Where, condition: Condition): Where | null {
  if (where === condition) return null
  if (where.kind !== 'all') return where
  const of = where.of.filter((each) => each !== condition)
  return of.length === 0 ? null : { kind: 'all', of }
}

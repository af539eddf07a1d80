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

/** The range of ids without which none of `necessary` can hold, or null where they name none. */
export function idRangeOf(necessary: readonly Condition[]): IdRange | null {
  let range: Partial<IdRange> = {}
  for (const { path, test } of necessary) {
    if (path.length !== 1 || path[0] !== 'id' || test.kind !== 'range') continue
    const { from, to } = test
    if (typeof from?.value === 'string' && from.inclusive) range = { from: from.value, ...range }
    if (typeof to?.value === 'string' && !to.inclusive) range = { to: to.value, ...range }
  }
  const { from, to } = range
  return from === undefined || to === undefined ? null : { from, to }
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

  /** What `where` says of the range itself is not asked again. */
  constructor(
    statements: StatementCache,
    database: number,
    { from, to }: IdRange,
    { where, order }: { where: Where; order: readonly OrderTerm[] },
  ) {
    this.#statements = statements
    this.#database = database
    this.#from = from
    this.#to = to
    const rest = without(where, { from, to })
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

/** `where` without the condition that is `range` itself, where it is that or directly part of all. */
function without(where: Where, range: IdRange): Where | null {
  if (where.kind === 'condition') return isRange(where, range) ? null : where
  if (where.kind !== 'all') return where
  const of = where.of.filter((each) => each.kind !== 'condition' || !isRange(each, range))
  return of.length === 0 ? null : { kind: 'all', of }
}

function isRange(condition: Condition, range: IdRange): boolean {
  const own = condition.negated ? null : idRangeOf([condition])
  return own !== null && own.from === range.from && own.to === range.to
}

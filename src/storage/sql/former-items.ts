import { turn } from '../../base/turn.ts'
import { erasedItemText } from '../port/erasure.ts'
import type { FoundItem } from '../port/store.ts'
import type { FormerRows, SearchRows } from '../search/plan.ts'
import { type Dialect, type SqlReads, translated } from './dialect.ts'
import { revisionMissing, type SqlRevisions } from './revisions.ts'
import { integer, type Row, readInteger, text } from './rows.ts'

/** Maximum rows of one piece of a scan. */
const PIECE_ROWS = 1_000
/** Maximum rows counted at once, which takes some milliseconds. */
const COUNT_ROWS = 20_000

/** The items of database $1 that were created after $2 and before $3, with 1 if they existed before $3. */
const LIVES = `SELECT created, 1 AS alive FROM items WHERE db = $1 AND created > $2 AND created < $3
  UNION ALL SELECT created, CASE WHEN deleted >= $3 THEN 1 ELSE 0 END FROM deleted_items
    WHERE db = $1 AND created > $2 AND created < $3
  ORDER BY created LIMIT $4`

/** The position of the last revision of an item of database $2 before $3, if it is not the current revision. */
const former = (table: string) => `(SELECT max(s.position) FROM superseded AS s
  WHERE s.db = $2 AND s.id = ${table}.id AND s.position < $3)`

/** The $4-th item of database $1 in a table that was created after $2 and before $3. */
const nthRow = (table: string) => `SELECT created FROM (SELECT created FROM ${table}
  WHERE db = $1 AND created > $2 AND created < $3 ORDER BY created LIMIT 1 OFFSET $4) AS ${table}_row`

function statements(dialect: Dialect) {
  const positions = dialect.elements('$1')
  return translated(dialect, {
    lives: LIVES,
    // A step ends with the $4-th row of one table, so that it has few rows of the other.
    stepEnd: `SELECT min(created) FROM (${nthRow('items')} UNION ALL ${nthRow('deleted_items')}) AS ends`,
    // Counts the items that were created after $2 and before $3, and existed before $4.
    step: `SELECT (SELECT count(*) FROM items WHERE db = $1 AND created > $2 AND created < $3)
      + (SELECT count(*) FROM deleted_items
        WHERE db = $1 AND created > $2 AND created < $3 AND deleted >= $4)`,
    states: `SELECT i.created, i.id, CASE WHEN i.revision < $3 THEN i.revision ELSE ${former('i')} END,
        CASE WHEN i.revision < $3 THEN 1 ELSE 0 END
      FROM ${positions} CROSS JOIN items AS i WHERE i.created = n.value
      UNION ALL SELECT d.created, d.id, ${former('d')}, 0
      FROM ${positions} CROSS JOIN deleted_items AS d WHERE d.db = $2 AND d.created = n.value`,
  })
}

/** The revision of an item before a position. */
interface State {
  readonly id: string
  readonly created: number
  readonly revision: number
  /** Whether the revision is still the current one, so that its text is in `items`. */
  readonly isCurrent: boolean
}

/** Reads the items of databases as they were before a position. */
export class SqlFormerItems {
  readonly #reads: SqlReads
  readonly #sql
  readonly #revisions: SqlRevisions
  readonly #current: SearchRows

  constructor(reads: SqlReads, dialect: Dialect, revisions: SqlRevisions, current: SearchRows) {
    this.#reads = reads
    this.#sql = statements(dialect)
    this.#revisions = revisions
    this.#current = current
  }

  /** Returns the items of the database created at `database` before the entry at `before`. */
  before(database: number, before: number): FormerRows {
    return {
      positions: (after, rows) => this.#positions(database, before, after, rows),
      steps: (after, items) => this.#steps(database, before, after, items),
      counts: () => this.#counts(database, before),
      items: (positions, options) => this.#items(database, before, positions, options),
    }
  }

  async *#positions(database: number, before: number, start: number, wanted: number) {
    const max = Math.min(PIECE_ROWS, Math.max(1, wanted))
    for (let after = start; ; ) {
      const values = [database, after, before, max]
      const rows = await this.#reads.all(this.#sql.lives, values, (row) => row)
      const last = rows.at(-1)
      if (last === undefined) return
      yield rows.filter(([, alive]) => alive === 1).map((row) => readInteger(row, 'created'))
      if (rows.length < max) return
      after = readInteger(last, 'created')
    }
  }

  /** Steps over items by index, first in long steps and then in short ones. */
  async *#steps(database: number, before: number, start: number, items: number) {
    let [after, left] = [start, items]
    for (const size of [COUNT_ROWS, PIECE_ROWS]) {
      while (left >= size) {
        const values = [database, after, before, size - 1]
        const end = await this.#reads.first(this.#sql.stepEnd, values, ([created]) => created)
        if (end === null) break
        const last = integer(end, 'created')
        const step = { after: last, items: await this.#count(database, before, after, last + 1) }
        if (step.items > left) break
        yield step
        after = step.after
        left -= step.items
      }
    }
  }

  async *#counts(database: number, before: number): AsyncGenerator<number> {
    let end = -1
    for await (const { after, items } of this.#steps(
      database,
      before,
      -1,
      Number.MAX_SAFE_INTEGER,
    )) {
      yield items
      end = after
    }
    yield await this.#count(database, before, end, before)
  }

  /** Counts the items that were created after `start` and before `end`, and existed before `before`. */
  async #count(database: number, before: number, start: number, end: number): Promise<number> {
    const values = [database, start, end, before]
    const toCount = (row: Row) => readInteger(row, 'count')
    return (await this.#reads.first(this.#sql.step, values, toCount)) ?? 0
  }

  async #items(
    database: number,
    before: number,
    positions: readonly number[],
    options: Parameters<SearchRows['items']>[1],
  ): Promise<FoundItem[]> {
    const values = [JSON.stringify(positions), database, before]
    const found = new Map(
      (await this.#reads.all(this.#sql.states, values, readState)).map((state) => [
        state.created,
        state,
      ]),
    )
    const states = positions.flatMap((position) => found.get(position) ?? [])
    if (!options.text) return states.map((state) => toFound(state, null))
    const texts = await this.#texts(states, options)
    const end = states.findIndex(({ created }) => !texts.has(created))
    const read = states.slice(0, end === -1 ? undefined : end)
    return read.map((state) => toFound(state, texts.get(state.created) ?? null))
  }

  /** Reads the texts of the first states, by `created`: at least of one, and few if they are long. */
  async #texts(
    states: readonly State[],
    options: Parameters<SearchRows['items']>[1],
  ): Promise<Map<number, string>> {
    const current = states.filter(({ isCurrent }) => isCurrent)
    const stored = await this.#current.items(
      current.map(({ created }) => created),
      options,
    )
    const texts = new Map<number, string>()
    const byCreation = new Map(stored.map((item) => [item.created, item]))
    const last = stored.at(-1)?.created
    let isUnread = false
    const others: { id: string; position: number; created: number }[] = []
    for (const { id, created, revision: position, isCurrent } of states) {
      if (isCurrent && isUnread) break
      const item = byCreation.get(created)
      if (item?.revision === position) texts.set(created, item.text ?? '')
      // A current revision that was replaced since the states were read is in its block, too.
      else others.push({ id, position, created })
      isUnread ||= created === last
    }
    const byPosition = await this.#former(others, options.charactersMax)
    for (const { id, position, created } of others) {
      const text = byPosition.get(position)
      if (text !== undefined) texts.set(created, text ?? erasedItemText(id))
    }
    return texts
  }

  /**
   * Reads the texts of the first revisions, by position: at least of one, and few if they are long. Reads each block once,
   * also if the list is in another order than the chain.
   */
  async #former(
    revisions: readonly { readonly id: string; readonly position: number }[],
    charactersMax: number,
  ): Promise<Map<number, string | null>> {
    const texts = new Map<number, string | null>()
    let left = revisions
    for (let characters = 0; left.length > 0 && characters < charactersMax; ) {
      for (const { position, text } of await this.#revisions.at(left)) {
        texts.set(position, text)
        characters += text?.length ?? 0
      }
      left = left.filter(({ position }) => !texts.has(position))
      if (left.length > 0) await turn()
    }
    return texts
  }
}

function readState([created, id, revision, isCurrent]: Row): State {
  const name = text(id, 'id')
  const position = integer(created, 'created')
  if (revision === null) throw revisionMissing(name, position)
  return {
    ...{ id: name, created: position },
    ...{ revision: integer(revision, 'revision'), isCurrent: isCurrent === 1 },
  }
}

function toFound({ id, created, revision }: State, text: string | null): FoundItem {
  return { id, created, revision, text }
}

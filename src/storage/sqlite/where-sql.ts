import { canonicalJson } from '../../base/canonical-json.ts'
import type { Bound, Condition, Path, Scalar, Where } from '../../filter/index.ts'
import type { CompiledWhere, Value } from '../sql/dialect.ts'

type Sql = Omit<CompiledWhere, 'isExact'>

/**
 * Compiles `where` to an SQL expression with placeholders `?` over `item`, the SQL expression of a JSON object. The value is 0 or 1, never
 * NULL. `filter/matches.ts` defines the meaning; a property test compares the SQL with `matches`.
 *
 * Patterns are left to `matches`, because SQLite has no matcher in linear time. In SQL a pattern is true,
 * negated or not, and no condition around it is negated, so the SQL may accept too many items, never too few.
 */
export function compileWhere(where: Where, item: string): CompiledWhere {
  switch (where.kind) {
    case 'condition':
      return compileCondition(where, item)
    case 'all':
    case 'any': {
      if (where.of.length === 0)
        return { text: where.kind === 'all' ? '1' : '0', values: [], isExact: true }
      const parts = where.of.map((each) => compileWhere(each, item))
      const joined = join(parts, where.kind === 'all' ? ' AND ' : ' OR ')
      return { ...joined, text: `(${joined.text})`, isExact: parts.every(({ isExact }) => isExact) }
    }
  }
}

function compileCondition({ path, test, negated }: Condition, item: string): CompiledWhere {
  const exactly = (sql: Sql) => ({ ...(negated ? around('NOT (', sql, ')') : sql), isExact: true })
  switch (test.kind) {
    case 'pattern':
      return { text: '1', values: [], isExact: false }
    case 'exists':
      return exactly(isReached(item, path))
    case 'range':
      return exactly(someValue(item, path, inRange(test.from, test.to)))
    case 'equals': {
      const some = someValue(item, path, equalsAny(test.values))
      if (!test.values.includes(null)) return exactly(some)
      // An absent member equals null.
      return exactly(
        around('(', join([some, around('NOT ', isReached(item, path), '')], ' OR '), ')'),
      )
    }
  }
}

const sql = (text: string, ...values: Value[]): Sql => ({ text, values })

function join(parts: readonly Sql[], between: string): Sql {
  return {
    text: parts.map(({ text }) => text).join(between),
    values: parts.flatMap(({ values }) => values),
  }
}

function around(before: string, { text, values }: Sql, after: string): Sql {
  return { text: before + text + after, values }
}

/** Returns the path in SQLite's notation, as a value to bind. */
function notation(path: Path): string {
  return `$${path.map((name) => `.${JSON.stringify(name)}`).join('')}`
}

/** Returns SQL that is true if a value at `path`, or an element of an array at `path`, passes `test` (of `v`). */
function someValue(item: string, path: Path, test: Sql): Sql {
  return somewhere(item, path, (holder, steps) =>
    join(
      [
        sql(`(json_type(${holder}, ?) IS NOT 'object' AND EXISTS (`, notation(steps)),
        sql(`SELECT 1 FROM json_each(${holder}, ?) AS v WHERE `, notation(steps)),
        around('', test, '))'),
      ],
      '',
    ),
  )
}

function isReached(item: string, path: Path): Sql {
  return somewhere(item, path, (holder, steps) =>
    sql(`json_type(${holder}, ?) IS NOT NULL`, notation(steps)),
  )
}

/**
 * Applies `test` to the objects that may have the last member of `path`. Without an array on the path, SQLite itself
 * follows the path. Otherwise the SQL joins the elements of each array on the path.
 */
function somewhere(item: string, path: Path, test: (holder: string, steps: Path) => Sql): Sql {
  const straight = test(item, path)
  if (path.length === 1) return straight
  const arrays = path
    .slice(0, -1)
    .map((_, at) => sql(`json_type(${item}, ?) IS 'array'`, notation(path.slice(0, at + 1))))
  const each: Sql[] = []
  let holder = item
  for (const [at, name] of path.slice(0, -1).entries()) {
    const step = notation([name])
    each.push(
      sql(
        `json_each(CASE json_type(${holder}, ?) WHEN 'array' THEN ${holder} -> ? ELSE json_array(${holder} -> ?) END) AS h${at}`,
        ...[step, step, step],
      ),
    )
    // A value that is not an object counts as an object without members, because its text need not be JSON.
    holder = `(CASE h${at}.type WHEN 'object' THEN h${at}.value ELSE '{}' END)`
  }
  return join(
    [
      around('(CASE WHEN ', join(arrays, ' OR '), ' THEN EXISTS (SELECT 1 FROM '),
      around('', join(each, ' CROSS JOIN '), ' WHERE '),
      around('', test(holder, path.slice(-1)), ') ELSE '),
      around('', straight, ' END)'),
    ],
    '',
  )
}

const IS_NUMBER = "v.type IN ('integer', 'real')"

function equalsAny(values: readonly Scalar[]): Sql {
  const texts = values.filter((value) => typeof value === 'string')
  const numbers = values.filter((value) => typeof value === 'number')
  const parts: Sql[] = []
  // A list is bound as one value, so that its length does not change the statement.
  if (texts.length === 1) parts.push(sql("(v.type = 'text' AND v.atom = ?)", ...texts))
  if (texts.length > 1) {
    parts.push(
      sql("(v.type = 'text' AND v.atom IN (SELECT value FROM json_each(?)))", canonicalJson(texts)),
    )
  }
  if (numbers.length === 1)
    parts.push(sql(`(${IS_NUMBER} AND CAST(v.atom AS REAL) = ?)`, ...numbers))
  if (numbers.length > 1) {
    const among = 'SELECT CAST(value AS REAL) FROM json_each(?)'
    parts.push(sql(`(${IS_NUMBER} AND CAST(v.atom AS REAL) IN (${among}))`, canonicalJson(numbers)))
  }
  for (const value of [true, false, null]) {
    if (values.includes(value)) parts.push(sql(`v.type = '${value}'`))
  }
  return parts.length === 0 ? sql('0') : around('(', join(parts, ' OR '), ')')
}

function inRange(from: Bound | null, to: Bound | null): Sql {
  const isNumeric = typeof (from ?? to)?.value === 'number'
  const value = isNumeric ? 'CAST(v.atom AS REAL)' : 'v.atom'
  const parts = [sql(isNumeric ? IS_NUMBER : "v.type = 'text'")]
  if (from !== null) parts.push(sql(`${value} ${from.inclusive ? '>=' : '>'} ?`, from.value))
  if (to !== null) parts.push(sql(`${value} ${to.inclusive ? '<=' : '<'} ?`, to.value))
  return around('(', join(parts, ' AND '), ')')
}

import { parseIsoTime } from '../../base/iso-time.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { parseStrictText, utf8Text } from '../../base/strict-json.ts'
import { InputError } from '../errors.ts'
import { convertRecord, formatRefusal, requireBytes } from './json-records.ts'
import { type LineEnd, type Piece, RECORD_BYTES_MAX, splitLines, withoutReturn } from './lines.ts'
import { itemRecord, type RecordPages, RecordRefusal } from './record.ts'

const COLUMNS_MAX = 1_000

const COLUMN_TYPES = ['string', 'number', 'boolean', 'json', 'date'] as const
export type ColumnType = (typeof COLUMN_TYPES)[number]

export interface Column {
  /** Null for a column without a name, whose cells must be empty. A member with an empty name has a type: `:string`. */
  readonly name: string | null
  readonly type: ColumnType
}

/** A cell. An empty cell without quotes means that the item does not have the member. */
interface Cell {
  readonly text: string
  readonly isQuoted: boolean
}

/** A row and the line on which the row begins. If the row is malformed, `cells` is the reason as text. */
interface Row {
  readonly line: number
  readonly cells: Cell[] | string
}

export interface CsvOptions {
  /** Types of columns, which take precedence over the types in the header. */
  readonly types: ReadonlyMap<string, ColumnType>
  readonly lineEnd: LineEnd
}

/**
 * Yields the records of CSV (RFC 4180) with a header. The header contains `name` or `name:type` for each column. The
 * separator is the one that a first line `sep=` names, or the most frequent one of the header. Errors: InputError for an
 * invalid header.
 */
export async function* csvRecords(
  chunks: AsyncIterable<Uint8Array>,
  { types, lineEnd }: CsvOptions,
): RecordPages {
  let columns: readonly Column[] | null = null
  let header: Row['cells'] = ''
  for await (const rows of readRows(chunks, lineEnd)) {
    if (columns === null) {
      const first = rows.shift()
      if (first === undefined) continue
      columns = parseHeader(first, types)
      header = first.cells
    }
    const known = columns
    yield rows
      .filter(({ cells }) => !isBlank(cells))
      .map(({ line, cells }) =>
        convertRecord(line, () => {
          if (typeof cells === 'string') throw new RecordRefusal(cells)
          if (hasTexts(cells, header)) throw new RecordRefusal('it is the header again')
          return itemRecord(line, toItem(known, cells))
        }),
      )
  }
  if (columns === null) throw new InputError('the input is empty: CSV needs a header')
}

function hasTexts(cells: readonly Cell[], others: Row['cells']): boolean {
  return (
    typeof others !== 'string' &&
    cells.length === others.length &&
    // With the byte order mark of its file, if several files were joined.
    cells.every(({ text }, at) => text.replace(/^\ufeff/, '') === others[at]?.text)
  )
}

/** Parses the types of a schema file: a JSON object from column names to types. Errors: InputError. */
export function parseColumnTypes(schema: Json): ReadonlyMap<string, ColumnType> {
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
  const types = Object.entries(isObject ? schema : {}).map(([name, given]) => {
    const type = COLUMN_TYPES.find((each) => each === given)
    if (type !== undefined) return [name, type] as const
    const problem = `the schema has the unknown type ${JSON.stringify(given)} for column ${name}`
    throw new InputError(`${problem}; use ${COLUMN_TYPES.join(', ')}`, {}, 'SCHEMA_INVALID')
  })
  if (types.length > 0) return new Map(types)
  const message = 'the schema must be a JSON object like {"price":"number"}'
  throw new InputError(message, {}, 'SCHEMA_INVALID')
}

function parseHeader(
  row: Row | undefined,
  types: ReadonlyMap<string, ColumnType>,
): readonly Column[] {
  if (row === undefined) throw new InputError('the input has no header')
  const { cells } = row
  if (typeof cells === 'string') throw new InputError(`the header is malformed: ${cells}`)
  const columns = cells.map(({ text }): Column => {
    const colon = text.lastIndexOf(':')
    const type = COLUMN_TYPES.find((each) => each === text.slice(colon + 1))
    const isTyped = colon >= 0 && type !== undefined
    const name = isTyped ? text.slice(0, colon) : text === '' ? null : text
    return { name, type: types.get(name ?? '') ?? (isTyped ? type : 'string') }
  })
  const names = new Map<string | null, number>()
  for (const [at, { name }] of columns.entries()) {
    const before = names.get(name)
    if (before !== undefined && name !== null) {
      throw new InputError(`the columns ${before} and ${at + 1} have the same name: ${shown(name)}`)
    }
    names.set(name, at + 1)
  }
  if (names.has(null) && names.size === 1) throw new InputError('the header has no names')
  if (names.has('__proto__')) throw new InputError('a column must not be named __proto__')
  const unknown = [...types.keys()].find((name) => !names.has(name))
  if (unknown === undefined) return columns
  throw new InputError(`the schema has a column ${unknown}, which the header does not have`)
}

function isBlank(cells: Row['cells']): boolean {
  if (typeof cells === 'string') return false
  return cells.every(({ text, isQuoted }) => text === '' && !isQuoted)
}

function toItem(columns: readonly Column[], cells: readonly Cell[]): JsonObject {
  if (cells.length !== columns.length) {
    throw new RecordRefusal(
      `it has ${cells.length} cells, but the header has ${columns.length} columns`,
    )
  }
  const item: JsonObject = {}
  for (const [at, { name, type }] of columns.entries()) {
    const cell = cells[at]
    if (cell === undefined || (cell.text === '' && (!cell.isQuoted || name === null))) continue
    if (name === null)
      throw new RecordRefusal(`column ${at + 1} has no name, but the value ${shown(cell.text)}`)
    const value = CONVERSIONS[type](cell.text)
    if (value === undefined) {
      throw new RecordRefusal(`column ${name}: ${shown(cell.text)} is not a ${type}`)
    }
    item[name] = value
  }
  return item
}

function shown(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** A date or a time of ISO 8601, as RFC 3339 profiles it. */
const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2}))?$/

/** Functions that convert the text of a cell to each type, and return undefined for an invalid text. */
const CONVERSIONS: Record<ColumnType, (text: string) => Json | undefined> = {
  string: (text) => text,
  number: (text) => (NUMBER.test(text) ? parseStrictText(text) : undefined),
  boolean: (text) => (text === 'true' || text === 'false' ? text === 'true' : undefined),
  json: (text) => {
    // The text is parsed inside an array, so that the limit of nesting counts the level that the item adds.
    const values = parseStrictText(`[${text}]`)
    return Array.isArray(values) && values.length === 1 ? values[0] : undefined
  },
  date: (text) => (DATE.test(text) && parseIsoTime(text) !== null ? text : undefined),
}

/** Maximum lines of a row. Each line of a quoted cell uses about 150 bytes of memory, even if the line is empty. */
const ROW_LINES_MAX = 1_000_000

/** A first line that names the separator, as some spreadsheet programs write and read it. */
const SEPARATOR_LINE = /^"?sep=(.)"?$/i
/** Separators besides the comma, most frequent first. */
const OTHER_SEPARATORS = [';', '\t', '|']

/** Returns the separator of a table by its header. Errors: InputError if the header has commas and as many others. */
function findSeparator(header: string): string {
  const outside = header.replace(/"[^"]*"?/g, '')
  const count = (text: string) => outside.split(text).length - 1
  const [other = ';'] = OTHER_SEPARATORS.toSorted((a, b) => count(b) - count(a))
  // In a name, as in `price, net`, a space follows the comma.
  if (count(other) === 0 || count(',') - count(', ') > count(other)) return ','
  if (count(other) > count(',')) return other
  const shown = `commas and ${other === '\t' ? 'tabs' : `the sign ${other}`}`
  throw new InputError(
    `the header has ${shown}: name the separator in a line before it, such as sep=, or sep=;`,
  )
}

/** Splits `chunks` into rows. A row has several lines if a cell in quotes contains line breaks. */
async function* readRows(
  chunks: AsyncIterable<Uint8Array>,
  lineEnd: LineEnd,
): AsyncGenerator<Row[]> {
  const parser = new RowParser(String.fromCharCode(lineEnd))
  let isStart = true
  let start: number | null = null
  let length = 0
  const next = ({ line, bytes }: Piece): Row[] => {
    if (isStart && bytes !== null && bytes.length < RECORD_BYTES_MAX) {
      const text = new TextDecoder().decode(withoutReturn(bytes))
      if (text.trim() === '') return []
      const [, separator] = SEPARATOR_LINE.exec(text) ?? []
      isStart = false
      if (separator !== undefined) {
        parser.separator = separator
        return []
      }
      parser.separator ??= findSeparator(text)
    }
    start ??= line
    length += bytes?.length ?? RECORD_BYTES_MAX
    let cells: Row['cells'] | null
    try {
      if (length > RECORD_BYTES_MAX) throw new RecordRefusal(tooLong(start, line))
      if (line - start >= ROW_LINES_MAX) {
        throw new RecordRefusal(`a quote is not closed within ${ROW_LINES_MAX} lines`)
      }
      cells = parser.add(requireBytes(bytes))
    } catch (error) {
      if (!(error instanceof Error)) throw error
      cells = formatRefusal(error)
      parser.reset()
    }
    if (cells === null) return []
    const row = { line: start, cells }
    start = null
    length = 0
    return [row]
  }
  for await (const lines of splitLines(chunks, lineEnd)) {
    const rows = lines.flatMap(next)
    if (rows.length > 0) yield rows
  }
  if (start !== null) yield [{ line: start, cells: 'a quote is not closed before the end' }]
}

function tooLong(start: number, line: number): string {
  return start === line
    ? `it has more than ${RECORD_BYTES_MAX} bytes`
    : `a quote is not closed within ${RECORD_BYTES_MAX} bytes, to line ${line}`
}

class RowParser {
  separator: string | null = null
  readonly #lineEnd: string
  #cells: Cell[] = []
  /** The text so far of a quoted cell that continues on the next line, or null if no cell is open. */
  #open: string | null = null

  constructor(lineEnd: string) {
    this.#lineEnd = lineEnd
  }

  reset(): void {
    this.#cells = []
    this.#open = null
  }

  /** Adds a line. Returns the row, or null if the row continues. Errors: RecordRefusal, StrictJsonError. */
  add(line: Uint8Array): Cell[] | null {
    // `whole` keeps the carriage return at the end of the line, because inside quotes, it belongs to the cell.
    const whole = utf8Text(line)
    const text = whole.endsWith('\r') ? whole.slice(0, -1) : whole
    const separator = this.separator ?? ','
    const cell = (at: number) =>
      text[at] === '"' ? this.#quoted(whole, at + 1, '') : this.#unquoted(text, at, separator)
    let at = this.#open === null ? cell(0) : this.#quoted(whole, 0, this.#open + this.#lineEnd)
    while (at !== -1 && at < text.length) {
      if (text[at] !== separator) throw new RecordRefusal('there is text after a closing quote')
      if (this.#cells.length >= COLUMNS_MAX) {
        throw new RecordRefusal(`it has more than ${COLUMNS_MAX} cells`)
      }
      at = cell(at + 1)
    }
    if (at === -1) return null
    const cells = this.#cells
    this.#cells = []
    return cells
  }

  /** Reads a cell without quotes. Returns the index of the separator after it, or of the end. */
  #unquoted(text: string, from: number, separator: string): number {
    const next = text.indexOf(separator, from)
    const end = next === -1 ? text.length : next
    const cell = text.slice(from, end)
    if (cell.includes('"')) throw new RecordRefusal('a cell with a quote must be in quotes')
    this.#cells.push({ text: cell, isQuoted: false })
    return end
  }

  /** Reads a quoted cell from `from`. Returns the index after the closing quote, or -1 if the cell continues. */
  #quoted(text: string, from: number, before: string): number {
    let cell = before
    for (let at = from; ; ) {
      const quote = text.indexOf('"', at)
      if (quote === -1) {
        this.#open = cell + text.slice(at)
        return -1
      }
      cell += text.slice(at, quote)
      if (text[quote + 1] !== '"') {
        this.#open = null
        this.#cells.push({ text: cell, isQuoted: true })
        return quote + 1
      }
      cell += '"'
      at = quote + 2
    }
  }
}

/** Returns a row of RFC 4180 for `item`, whose values have the types of `columns`. Errors: InputError. */
export function csvRow(columns: readonly Column[], item: JsonObject): string {
  const cells = columns.map(({ name, type }) => cellText(item[name ?? ''], type))
  return requireReadable(cells.join(','))
}

/** Returns the header for `columns`, each with its type. Errors: InputError. */
export function csvHeader(columns: readonly Column[]): string {
  const names = columns.map(({ name, type }) => quoteCell(`${name}:${type}`, QUOTED_IN_HEADER))
  const header = names.join(',')
  // Without a byte order mark, a NUL among the first two bytes would mean UTF-16.
  return requireReadable(header.slice(0, 2).includes('\0') ? `\ufeff${header}` : header)
}

/** Returns `row` if `csvRecords` can read it. Errors: InputError. */
function requireReadable(row: string): string {
  if (row.length < ROW_LINES_MAX) return row
  const isLong =
    row.length > RECORD_BYTES_MAX || new TextEncoder().encode(row).length > RECORD_BYTES_MAX
  if (!isLong && row.split('\n', ROW_LINES_MAX + 1).length <= ROW_LINES_MAX) return row
  const most = `${RECORD_BYTES_MAX} bytes and ${ROW_LINES_MAX} lines`
  throw new InputError(`an item needs a row of CSV with more than ${most}: choose another format`)
}

function cellText(value: Json | undefined, type: ColumnType): string {
  if (value === undefined) return ''
  return quoteCell(type === 'json' || typeof value !== 'string' ? JSON.stringify(value) : value)
}

/** Characters for which a cell of a header is quoted. `findSeparator` ignores separators in quotes. */
export const QUOTED_IN_HEADER = /[",;|\t\r\n]/

/** Returns a cell of RFC 4180, in quotes if it has one of the `quoted` characters, or is empty: without quotes, it would be missing. */
export function quoteCell(text: string, quoted = /[",\r\n]/): string {
  return text === '' || quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Collects the members of items as columns, in order of appearance. A column with several types becomes `json`. */
export class ColumnFinder {
  readonly #types = new Map<string, ColumnType>()

  /** Adds the members of `item`. Errors: InputError if there are more than COLUMNS_MAX members in total. */
  add(item: JsonObject): void {
    for (const [name, value] of Object.entries(item)) {
      const type = findType(value)
      const before = this.#types.get(name)
      this.#types.set(name, before === undefined || before === type ? type : 'json')
    }
    if (this.#types.size <= COLUMNS_MAX) return
    throw new InputError(
      `the items have more than ${COLUMNS_MAX} members, the maximum for CSV: choose another format`,
    )
  }

  /** The columns; without items, only the id, so that there is a header. */
  get columns(): Column[] {
    const columns = [...this.#types].map(([name, type]) => ({ name, type }))
    return columns.length > 0 ? columns : [{ name: 'id', type: 'string' }]
  }
}

function findType(value: Json): ColumnType {
  if (typeof value === 'string') return 'string'
  if (typeof value === 'number') return 'number'
  return typeof value === 'boolean' ? 'boolean' : 'json'
}

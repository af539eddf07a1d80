import { isJsonObject, type Json, type JsonObject, parseJsonOrNull } from '../base/json.ts'
import { FormatError } from './errors.ts'
import type { LineEnd } from './formats/lines.ts'
import type { Pages, SourceRecord } from './formats/record.ts'

// Recognizes exports of other programs in an input whose format is a guess. Each of their records would become an item
// with a new id and the structure of the other program, which a ledger would keep for ever.

/** Names of members that other programs use for the id. */
const ID_NAMES = /^(_?id|_?key|uuid|guid|object_?id|document_?id|__name__)$/i
/** Types of attribute values of DynamoDB. */
const DYNAMODB_TYPES = new Set(['S', 'N', 'B', 'BOOL', 'NULL', 'M', 'L', 'SS', 'NS', 'BS'])

/** Yields `pages` unless the first record shows that they need another format. Errors: FormatError. */
export async function* refuseForeign(pages: Pages, idMember: string | null): Pages {
  const first: SourceRecord[] = []
  const iterator = pages[Symbol.asyncIterator]()
  let isWhole = false
  while (first.length < 2 && !isWhole) {
    const next = await iterator.next()
    if (next.done === true) isWhole = true
    else first.push(...next.value)
  }
  const [record] = first.filter(({ kind }) => kind === 'item')
  if (record?.kind === 'item') {
    const reason = foreignReason(record.item, first.length === 1, idMember)
    if (reason !== null) throw new FormatError(`${reason}; --format overrides this check`)
  }
  yield first
  yield* { [Symbol.asyncIterator]: () => iterator }
}

/** Returns what is wrong with `item` as the first record, or null. `isOnly`: it is the only record of the input. */
function foreignReason(item: JsonObject, isOnly: boolean, idMember: string | null): string | null {
  const values = Object.values(item)
  if ('transactionInfo' in item || 'qldbStreamArn' in item || 'blockAddress' in item) {
    return 'this is an export of Amazon QLDB: use --format qldb'
  }
  if (isJsonObject(item._source))
    return 'this is an export of Elasticsearch: load the _source of each line'
  if (values.some(isExtended)) return 'this is Extended JSON of MongoDB: use --format mongodb'
  if (typeof item._id === 'string' && typeof item._rev === 'string' && idMember === null) {
    return 'these are documents of CouchDB: use --format couchdb, or --id _id for one document per line'
  }
  if (item.id !== undefined || idMember !== null) return null
  if (isOnly && (Array.isArray(item.rows) || Array.isArray(item.docs))) {
    return 'this is a reply of CouchDB: use --format couchdb'
  }
  const [wrapped] = values
  if (isAttributes(item) || (isJsonObject(item.Item) && isAttributes(item.Item))) {
    return 'this is an export of DynamoDB, with a type in each value: convert it to plain JSON'
  }
  if (values.length === 1 && isJsonObject(wrapped)) {
    const [name] = Object.keys(item)
    return `the records are inside a member ${name}: load what is in it`
  }
  if (isOnly && values.length > 0 && values.every(isJsonObject)) {
    return 'the input is one object of objects: load an array, or one object per line'
  }
  const list = Object.keys(item).find((name) => isListOfObjects(item[name]))
  if (isOnly && list !== undefined) {
    return `the input is one object with the list ${list}: load the list itself`
  }
  const number = Object.keys(item).find((each) => /^-?\d+(\.\d+)?$/.test(each))
  if (number !== undefined) {
    return `a member has the name ${number}: if this is a value, the input has no header`
  }
  const name = Object.keys(item).find((each) => ID_NAMES.test(each))
  if (name === undefined) return null
  return `the records have no member id, but ${name}: use --id ${name}`
}

function isExtended(value: Json): boolean {
  const [name, ...others] = isJsonObject(value) ? Object.keys(value) : []
  return others.length === 0 && /^\$(oid|date|number|binary|uuid|timestamp)/.test(name ?? '')
}

function isAttributes(item: JsonObject): boolean {
  const values = Object.values(item)
  return (
    values.length > 0 &&
    values.every((value) => {
      const names = isJsonObject(value) ? Object.keys(value) : []
      return names.length === 1 && DYNAMODB_TYPES.has(names[0] ?? '')
    })
  )
}

function isListOfObjects(value: Json | undefined): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isJsonObject)
}

/** The start of a reply of CouchDB to `_all_docs`, which has several lines. */
const COUCHDB_REPLY = /^\s*\{\s*"(?:total_rows"\s*:|rows"\s*:\s*\[)/

/** Rejects one JSON value over several lines, none of which is an object. Errors: FormatError. */
export function requireLines(start: Buffer, lineEnd: LineEnd): void {
  const text = start.toString()
  if (COUCHDB_REPLY.test(text)) {
    throw new FormatError(
      'this is a reply of CouchDB: use --format couchdb (or --format ndjson if each line is an item)',
    )
  }
  const [first = '', second] = text.trimStart().split(String.fromCharCode(lineEnd))
  const isOpen = /^\s*\{/.test(first) && /[{[,]\s*$/.test(first) && parseJsonOrNull(first) === null
  if (!isOpen || second === undefined) return
  throw new FormatError(
    'the input is JSON over several lines: load an array, or one object per line, which jq -c writes',
  )
}

import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseForeignJsonOrNull } from '../base/strict-json.ts'
import { FormatError } from './errors.ts'
import type { LineEnd } from './formats/lines.ts'
import type { RecordPages, SourceRecord } from './formats/record.ts'

// Recognizes exports of other programs in an input whose format is a guess. Each of their records would become an item
// with a new id and the structure of the other program, which a ledger would keep for ever.

/** Names of members that other programs use for the id. */
const ID_NAMES = /^([_$]?id|_?key|uuid|guid|object_?id|document_?id|__name__)$/i
/** Types of attribute values of DynamoDB. */
const DYNAMODB_TYPES = new Set(['S', 'N', 'B', 'BOOL', 'NULL', 'M', 'L', 'SS', 'NS', 'BS'])

/** Yields `pages` unless the first record shows that they need another format. Errors: FormatError. */
export async function* refuseForeign(pages: RecordPages, idMember: string | null): RecordPages {
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

/** Returns the defect of `item` as the first record, or null. `isOnly`: it is the only record of the input. */
function foreignReason(item: JsonObject, isOnly: boolean, idMember: string | null): string | null {
  const known = KNOWN.find(([isKnown]) => isKnown(item))
  if (known !== undefined) return known[1]
  if (item.id !== undefined || idMember !== null) return null
  if (typeof item._id === 'string' && typeof item._rev === 'string') {
    return 'these are documents of CouchDB: use --format couchdb, or --id _id for one document per line'
  }
  if (isAttributes(item) || (isJsonObject(item.Item) && isAttributes(item.Item))) {
    return 'this is an export of DynamoDB, with a type in each value: convert it to plain JSON'
  }
  const names = Object.keys(item)
  const values = Object.values(item)
  if (values.length === 1 && values.every(isJsonObject)) {
    return `the records are inside a member ${names[0]}: load what is in it`
  }
  if (isOnly && values.length > 0) {
    if (isListOfObjects(item.rows) || isListOfObjects(item.docs)) {
      return 'this is a reply of CouchDB: use --format couchdb'
    }
    const list = names.find((name) => isListOfObjects(item[name]))
    if (list !== undefined) {
      return `the input is one object with the list ${list}: load the list itself`
    }
    if (values.every(isJsonObject) || values.every(Array.isArray)) {
      return 'the input is one object of objects or lists: load an array, or one object per line'
    }
  }
  const number = names.find((name) => /^-?\d+(\.\d+)?$/.test(name))
  if (number !== undefined) {
    return `a member has the name ${number}: if this is a value, the input has no header`
  }
  const name = names.find((each) => ID_NAMES.test(each.trim()))
  if (name === undefined) return null
  const shown = name === name.trim() ? name : JSON.stringify(name)
  return `the records have no member id, but ${shown}: use --id ${shown}`
}

/** Records that only one program writes. */
const KNOWN: readonly (readonly [isKnown: (item: JsonObject) => boolean, reason: string])[] = [
  [
    (item) => 'transactionInfo' in item || 'qldbStreamArn' in item || 'blockAddress' in item,
    'this is an export of Amazon QLDB: use --format qldb',
  ],
  [
    (item) => Object.values(item).some(isExtended),
    'this is Extended JSON of MongoDB: use --format mongodb',
  ],
  [
    (item) => isJsonObject(item._source),
    'this is an export of Elasticsearch: load the _source of each record',
  ],
  [
    (item) => isJsonObject(item.fields) && String(item.name).startsWith('projects/'),
    'this is a document of Firestore, with a type in each value: convert it to plain JSON',
  ],
  [
    (item) => 'exportArn' in item || 'dataFileS3Key' in item,
    'this is a manifest of a DynamoDB export, not its data',
  ],
  [
    (item) => String(item.name).includes('couchbackup') && 'mode' in item,
    'this is a backup of couchbackup: load its documents as one array, with --format couchdb',
  ],
  [
    (item) => item.type === 'header' && String(item.comment).includes('phpMyAdmin'),
    'this is an export of phpMyAdmin: load the list data of its table',
  ],
]

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

/** The start of a reply of CouchDB to `_all_docs` or of a body of `_bulk_docs`, which have several lines. */
const COUCHDB_REPLY = /^\s*\{\s*"(?:total_rows"\s*:|new_edits"\s*:|(?:rows|docs)"\s*:\s*\[)/

/** Rejects one JSON value over several lines, none of which is an object. Errors: FormatError. */
export function requireLines(start: Uint8Array, lineEnd: LineEnd): void {
  const text = new TextDecoder().decode(start)
  if (COUCHDB_REPLY.test(text)) {
    throw new FormatError(
      'this is a reply of CouchDB: use --format couchdb (or --format ndjson if each line is an item)',
    )
  }
  const [first = '', second] = text.trimStart().split(String.fromCharCode(lineEnd))
  const isOpen =
    /^\s*\{/.test(first) && /[{[,]\s*$/.test(first) && parseForeignJsonOrNull(first) === null
  if (!isOpen || second === undefined) return
  throw new FormatError(
    'the input is JSON over several lines: load an array, or one object per line, which jq -c writes',
  )
}

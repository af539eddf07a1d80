import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { arrayRecords } from './json-records.ts'
import {
  isBase64,
  itemRecord,
  type RecordPages,
  RecordRefusal,
  type SourceAttachment,
  type SourceRecord,
} from './record.ts'

/** Names of the array with the documents: in replies of `_all_docs` and `_find`, and in the body of `_bulk_docs`. */
const ARRAYS = ['rows', 'docs']
const DESIGN_PREFIX = '_design/'

export interface CouchdbOptions {
  readonly withoutAttachments: boolean
}

/**
 * Yields the documents in a reply of CouchDB to `GET /{db}/_all_docs?include_docs=true&attachments=true`.
 *
 * Members that begin with `_` are metadata of CouchDB. `_id` stays in the item, `_attachments` becomes the attachments
 * of the record, and all other metadata is dropped. Source: CouchDB API reference, "Documents".
 */
export function couchdbRecords(
  chunks: AsyncIterable<Uint8Array>,
  options: CouchdbOptions,
): RecordPages {
  return arrayRecords(chunks, (line, row) => documentRecord(line, row, options), ARRAYS)
}

function documentRecord(
  line: number,
  row: JsonObject,
  { withoutAttachments }: CouchdbOptions,
): SourceRecord {
  const document = requireDocument(row)
  const { _id: id } = document
  if (typeof id === 'string' && id.startsWith(DESIGN_PREFIX)) {
    return { kind: 'left-out', line, reason: 'design documents' }
  }
  if (document._deleted === true) return { kind: 'left-out', line, reason: 'deleted documents' }
  const item: JsonObject = {}
  for (const [name, value] of Object.entries(document)) {
    if (name === '_id' || !name.startsWith('_')) item[name] = value
  }
  const attachments = withoutAttachments ? [] : decodeAttachments(document._attachments)
  return itemRecord(line, item, attachments)
}

/** Returns the document in a row. Errors: RecordRefusal. */
function requireDocument(row: JsonObject): JsonObject {
  if (typeof row.error === 'string') throw new RecordRefusal(`CouchDB reported: ${row.error}`)
  if (isJsonObject(row.doc)) return row.doc
  if (typeof row._id === 'string') return row
  throw new RecordRefusal('the row has no document: fetch _all_docs with include_docs=true')
}

/** Decodes the value of `_attachments`. Errors: RecordRefusal. */
function decodeAttachments(value: Json | undefined): SourceAttachment[] {
  if (value === undefined) return []
  if (!isJsonObject(value)) throw new RecordRefusal('_attachments is not an object')
  return Object.entries(value).map(([name, attachment]) => {
    if (!isJsonObject(attachment)) throw new RecordRefusal(`attachment ${name} is not an object`)
    const { content_type: contentType = 'application/octet-stream', data } = attachment
    if (typeof data !== 'string') {
      throw new RecordRefusal(
        `attachment ${name} has no data: fetch _all_docs with attachments=true, ` +
          'or load with --no-attachments',
      )
    }
    if (typeof contentType !== 'string' || !isBase64(data)) {
      throw new RecordRefusal(
        `attachment ${name} has a content type that is not text, or data that is not base64`,
      )
    }
    return { name, contentType, bytes: Buffer.from(data, 'base64') }
  })
}

import { errorMessage } from '../../base/errors.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { InputError } from '../errors.ts'
import { type IonValue, ionValues } from './ion.ts'
import { convertRecord } from './json-records.ts'
import { type RecordPages, RecordRefusal, type SourceRecord } from './record.ts'

/** Maximum bytes of an input file, because a whole file is in memory. QLDB splits an export into several files. */
const FILE_BYTES_MAX = 256 * 1024 * 1024

/** The member of an item with the metadata of its revision. */
const METADATA = 'qldb'

/**
 * Yields the revisions in a journal export of Amazon QLDB, in the order of the journal. The export is Ion text, Ion
 * binary or JSON lines, with one value per block. A value can also be a record of a stream, or a row of history() or of
 * _ql_committed_<table>. Errors: InputError. Source: Amazon QLDB developer guide, "Journal export output", "Stream
 * records" and "Querying revision history".
 */
export async function* qldbRecords(chunks: AsyncIterable<Uint8Array>): RecordPages {
  const bytes = await wholeFile(chunks)
  const values = ionValues(bytes)
  for (;;) {
    let next: IteratorResult<IonValue, void>
    try {
      next = values.next()
    } catch (error) {
      const reason = errorMessage(error)
      throw new InputError(`the input is not Ion: ${reason}`, { cause: error })
    }
    if (next.done === true) return
    yield convertValue(next.value)
  }
}

async function wholeFile(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of chunks) {
    length += part.length
    if (length > FILE_BYTES_MAX) {
      const message = `the input has more than ${FILE_BYTES_MAX} bytes: give the files of the export as separate arguments`
      throw new InputError(message)
    }
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** Returns the records of a block, of a record of a stream, or of a row of history(). */
function convertValue({ line, value }: IonValue): SourceRecord[] {
  const refused = (reason: string): SourceRecord[] => [{ kind: 'refused', line, reason }]
  const leftOut = (reason: string): SourceRecord[] => [{ kind: 'left-out', line, reason }]
  if (value instanceof RecordRefusal) return refused(value.message)
  if (!isJsonObject(value)) return refused('it is not a block of QLDB')
  const convert = (revision: Json, findTable: FindTable) =>
    convertRecord(line, () => convertRevision(line, revision, findTable))
  if ('qldbStreamArn' in value) {
    const { tableInfo, revision } = isJsonObject(value.payload) ? value.payload : {}
    if (value.recordType !== 'REVISION_DETAILS') return leftOut('records of a stream without data')
    const { tableName } = isJsonObject(tableInfo) ? tableInfo : {}
    if (typeof tableName !== 'string') return refused('it has no table')
    return [convert(revision ?? null, () => tableName)]
  }
  const { revisions, transactionInfo } = value
  if (Array.isArray(revisions) && revisions.length > 0) {
    const documents = isJsonObject(transactionInfo) ? (transactionInfo.documents ?? null) : null
    return revisions.map((revision) => convert(revision, (id) => requireTable(id, documents)))
  }
  if (revisions !== undefined && !Array.isArray(revisions)) {
    return refused('its revisions are not a list')
  }
  if (revisions !== undefined || 'transactionInfo' in value) {
    return leftOut('blocks without revisions')
  }
  if ('exportId' in value || Array.isArray(value.keys)) return leftOut('manifests of an export')
  if ('metadata' in value) return [convert(value, () => null)]
  return refused('it is neither a block of QLDB, nor a record of a stream, nor a row with metadata')
}

type FindTable = (id: string) => string | null

/** Errors: RecordRefusal. */
function convertRevision(line: number, revision: Json, findTable: FindTable): SourceRecord {
  if (!isJsonObject(revision)) throw new RecordRefusal('a revision is not a struct')
  const { metadata, data, dataHash } = revision
  // A revision of a system table has only a hash.
  if (metadata === undefined) {
    return { kind: 'left-out', line, reason: "revisions of QLDB's system data" }
  }
  if (!isJsonObject(metadata) || typeof metadata.id !== 'string') {
    throw new RecordRefusal('a revision has no metadata with an id')
  }
  if (data === undefined && dataHash !== undefined) {
    return { kind: 'left-out', line, reason: 'redacted revisions' }
  }
  const { id, version } = metadata
  const table = findTable(id)
  const item = data === undefined ? null : toItem(data, metadata)
  return { kind: 'revision', line, table, id, isFirst: version === 0, item }
}

/** Returns the table of document `id`. Errors: RecordRefusal if the block does not contain the table. */
function requireTable(id: string, documents: Json): string {
  const document = isJsonObject(documents) && Object.hasOwn(documents, id) ? documents[id] : null
  if (isJsonObject(document) && typeof document.tableName === 'string') return document.tableName
  throw new RecordRefusal(`document ${id} has no table in its block`)
}

/** Returns the item for a revision, with the metadata of the revision. Errors: RecordRefusal. */
function toItem(data: Json, { id, version, txId, txTime }: JsonObject): JsonObject {
  if (!isJsonObject(data)) throw new RecordRefusal(`document ${id} is not a struct`)
  if (data[METADATA] !== undefined) {
    throw new RecordRefusal(
      `document ${id} has a member ${METADATA}, a name that is reserved for the metadata of QLDB`,
    )
  }
  const { id: dataId, ...members } = data
  const metadata: JsonObject = {
    version: version ?? null,
    txId: txId ?? null,
    txTime: txTime ?? null,
  }
  // The item id is the document id, not `data.id`, because the revision of a deletion has no data.
  if (dataId !== undefined && dataId !== id) metadata.dataId = dataId
  return { ...members, [METADATA]: metadata }
}

import {
  type Block,
  ENTRIES_MAX,
  HASH_BYTES,
  type Head,
  type Header,
  unpackPosition,
} from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'
import type {
  AttachmentRow,
  Creations,
  DeletedDatabase,
  DeletedItem,
  IdempotencyRecord,
  ItemLife,
  ItemRow,
  StoredAttachment,
  StoredDatabase,
  StoredIndex,
  StoredItem,
} from '../port/store.ts'
import { READY } from '../search/declared-indexes.ts'
import { parseBody } from './body.ts'

export type Row = readonly unknown[]

// The converters check types, so a damaged file causes STORE_DAMAGED and never an unexpected value.

export function text(value: unknown, column: string): string {
  if (typeof value !== 'string') throw damaged(column)
  return value
}

export function integer(value: unknown, column: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw damaged(column)
  return value
}

function bytes(value: unknown, column: string): Uint8Array {
  if (!(value instanceof Uint8Array)) throw damaged(column)
  return value
}

function damaged(column: string): StoreError {
  return new StoreError('STORE_DAMAGED', `column ${column} has an invalid value`)
}

/** Returns the only integer of a row. `column` is the name of the column in errors. */
export function readInteger([value]: Row, column: string): number {
  return integer(value, column)
}

/** Returns the only BLOB of a row. `column` is the name of the column in errors. */
export function readBinary([value]: Row, column: string): Uint8Array {
  return bytes(value, column)
}

/** Converts the columns created, name. */
export function readDatabaseRow([created, name]: Row): StoredDatabase {
  return { name: text(name, 'name'), created: integer(created, 'created') }
}

/** Converts the columns created, name, deleted. */
export function readDeletedDatabase(row: Row): DeletedDatabase {
  return { ...readDatabaseRow(row), deleted: integer(row[2], 'deleted') }
}

/** Converts the columns id, created, deleted. */
export function readDeletedItem([id, created, deleted]: Row): DeletedItem {
  return {
    id: text(id, 'id'),
    created: integer(created, 'created'),
    deleted: integer(deleted, 'deleted'),
  }
}

/** Converts the columns id, created, deleted, revision, and whether there is former content. */
export function readItemLife([id, created, deleted, revision, hasContent]: Row): ItemLife {
  return {
    ...readItemPositions([id, created, revision]),
    deleted: deleted === null ? null : integer(deleted, 'deleted'),
    hasFormerContent: hasContent === 1,
  }
}

/** Converts the columns id, created, revision. */
export function readItemPositions([id, created, revision]: Row): Omit<StoredItem, 'text'> {
  return {
    id: text(id, 'id'),
    created: integer(created, 'created'),
    revision: integer(revision, 'revision'),
  }
}

/** Converts the columns id, created, revision, item. */
export function readStoredItem(row: Row): StoredItem {
  return { ...readItemPositions(row), text: text(row[3], 'item') }
}

/** Converts the columns id, created, revision, item, db. */
export function readItemRow(row: Row): ItemRow {
  return { ...readStoredItem(row), database: integer(row[4], 'db') }
}

/** Converts the columns height, id, timestamps. */
export function readHeadRow([height, id, timestamps]: Row): Head {
  return {
    height: integer(height, 'height'),
    id: text(id, 'id'),
    timestamp: integers(timestamps).at(-1) ?? 0,
  }
}

/** Converts the column timestamps, or its last line, to the last timestamp. */
export function readLastTime([timestamps]: Row): number {
  return integers(timestamps).at(-1) ?? 0
}

/** Converts the columns height, prev_id, nonce, root, and the length of commitments. */
export function readHeaderRow(
  [height, prevId, nonce, root, length]: Row,
  serverId: number,
): Header {
  return {
    serverId,
    height: integer(height, 'height'),
    prevId: prevId === null ? null : text(prevId, 'prev_id'),
    nonce: integer(nonce, 'nonce'),
    root: text(root, 'root'),
    count: Math.floor(integer(length, 'commitments') / HASH_BYTES),
  }
}

/**
 * Converts the columns height, id, prev_id, nonce, root, body, timestamps, blinds, commitments of the chain
 * of `serverId`. Does not check the content; `verifyBlock` does.
 */
export function readBlockRow(row: Row, serverId: number): Block {
  const [height, id, prevId, nonce, root, body, timestamps, blinds, commitments] = row
  return {
    serverId,
    height: integer(height, 'height'),
    id: text(id, 'id'),
    prevId: prevId === null ? null : text(prevId, 'prev_id'),
    nonce: integer(nonce, 'nonce'),
    root: text(root, 'root'),
    entries: parseBody(body),
    timestamps: integers(timestamps),
    blinds: bytes(blinds, 'blinds'),
    commitments: bytes(commitments, 'commitments'),
  }
}

/** Converts the columns body, timestamps. */
export function readBodyRow([body, timestamps]: Row): { entries: string[]; timestamps: number[] } {
  return { entries: parseBody(body), timestamps: integers(timestamps) }
}

/** Converts the columns position, key, fingerprint, entries, timestamp, digest. */
export function readIdempotencyRecord(row: Row): IdempotencyRecord {
  const [position, key, fingerprint, entries, timestamp, digest] = row
  return {
    position: integer(position, 'position'),
    key: text(key, 'key'),
    fingerprint: text(fingerprint, 'fingerprint'),
    entries: integer(entries, 'entries'),
    timestamp: integer(timestamp, 'timestamp'),
    digest: text(digest, 'digest'),
  }
}

/** Converts the columns position, name, content_type, length, sha256. */
export function readStoredAttachment([
  position,
  name,
  contentType,
  length,
  sha256,
]: Row): StoredAttachment {
  return {
    position: integer(position, 'position'),
    name: text(name, 'name'),
    content_type: text(contentType, 'content_type'),
    length: integer(length, 'length'),
    sha256: text(sha256, 'sha256'),
  }
}

/** Converts the columns of `decodeAttachment`, then db, id, ended. */
export function readAttachmentRow(row: Row): AttachmentRow {
  const ended = row[7]
  return {
    ...readStoredAttachment(row),
    database: integer(row[5], 'db'),
    id: text(row[6], 'id'),
    ended: ended === null ? null : integer(ended, 'ended'),
  }
}

/**
 * Converts the columns database name, its creation, path, built, and the height of the head. Progress is
 * counted in blocks, because counting the items of a large database takes too long.
 */
export function readStoredIndex([name, created, path, built, head]: Row): StoredIndex {
  const first = unpackPosition(Number(created)).height
  const total = Number(head) - first + 1
  const isReady = built === READY
  const reached = Math.max(first, unpackPosition(Math.max(0, Number(built))).height)
  return {
    db: String(name),
    path: String(path),
    isReady,
    done: isReady ? total : reached - first,
    total,
  }
}

/** Converts the columns name, created, count. */
export function readCreations([name, database, count]: Row): Creations {
  return {
    db: text(name, 'name'),
    database: integer(database, 'created'),
    count: integer(count, 'count'),
  }
}

function integers(value: unknown): number[] {
  // Entries of one unit of work have the same timestamp, so the last number is reused.
  let [last, number] = ['', Number.NaN]
  return text(value, 'timestamps')
    .split('\n', ENTRIES_MAX + 1)
    .map((line) => {
      if (line === last) return number
      last = line
      number = /^(0|-?[1-9]\d*)$/.test(line) ? Number(line) : Number.NaN
      return number
    })
}

/** Converts rows until the page is full. */
export function page<Value>(
  rows: Iterable<Row>,
  convert: (row: Row) => Value,
  measure: (value: Value) => number,
  charactersMax: number,
): Value[] {
  const values: Value[] = []
  let characters = 0
  for (const row of rows) {
    const value = convert(row)
    values.push(value)
    characters += measure(value)
    if (characters >= charactersMax) break
  }
  return values
}

import type { JsonObject } from '../../base/json.ts'

export interface SourceAttachment {
  readonly name: string
  readonly contentType: string
  readonly bytes: Uint8Array
}

export interface Located {
  /** The line on which the record begins, from 1. */
  readonly line: number
  /** The name of the file, if the input has several files. */
  readonly file?: string
}

/** Returns the location of a record as text, such as `line 3` or `a.csv, line 3`. */
export function formatRecordLocation({ line, file }: Located): string {
  return file === undefined ? `line ${line}` : `${file}, line ${line}`
}

export interface ItemRecord extends Located {
  readonly kind: 'item'
  readonly item: JsonObject
  readonly attachments: readonly SourceAttachment[]
}

/** A revision of an item. The source yields all revisions of an item in the order of its history. */
export interface RevisionRecord extends Located {
  readonly kind: 'revision'
  /** Null if the source does not tell the table. */
  readonly table: string | null
  readonly id: string
  /** Whether this is the first revision of the item. */
  readonly isFirst: boolean
  /** The new content, or null if the revision is a deletion. */
  readonly item: JsonObject | null
}

/** A record that cannot become an item. */
export interface RefusedRecord extends Located {
  readonly kind: 'refused'
  readonly reason: string
}

/** A record that is not meant to become an item, such as a design document. */
export interface LeftOutRecord extends Located {
  readonly kind: 'left-out'
  /** A plural noun, such as `design documents`. */
  readonly reason: string
}

export type SourceRecord = ItemRecord | RevisionRecord | RefusedRecord | LeftOutRecord

/** Yields the records of an input in their order, page by page. Errors: InputError. */
export type RecordPages = AsyncGenerator<SourceRecord[]>

export function itemRecord(
  line: number,
  item: JsonObject,
  attachments: readonly SourceAttachment[] = [],
): ItemRecord {
  return { kind: 'item', line, item, attachments }
}

/** Thrown while a record is converted. The record is refused, with the message as the reason. */
export class RecordRefusal extends Error {
  override readonly name = 'RecordRefusal'
}

export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}

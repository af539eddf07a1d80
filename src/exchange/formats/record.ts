import type { JsonObject } from '../../base/json.ts'

/** An attachment inside a record. */
export interface SourceAttachment {
  readonly name: string
  readonly contentType: string
  readonly bytes: Uint8Array
}

export interface Located {
  /** The line on which the record begins, from 1. */
  readonly line: number
  /** The name of the file, if there are several. */
  readonly file?: string
}

/** Describes where a record is. */
export function placeOf({ line, file }: Located): string {
  return file === undefined ? `line ${line}` : `${file}, line ${line}`
}

/** A record that becomes an item. */
export interface ItemRecord extends Located {
  readonly kind: 'item'
  readonly item: JsonObject
  readonly attachments: readonly SourceAttachment[]
}

/** A revision of an item with a history, in the order of the history. */
export interface RevisionRecord extends Located {
  readonly kind: 'revision'
  readonly table: string
  readonly id: string
  /** Whether the history begins here. */
  readonly isFirst: boolean
  /** Null if the item was deleted. */
  readonly item: JsonObject | null
}

/** A record that cannot become an item. */
export interface RefusedRecord extends Located {
  readonly kind: 'refused'
  readonly reason: string
}

/** A record that is not meant to become an item, such as a design document; `reason` is a plural noun. */
export interface LeftOutRecord extends Located {
  readonly kind: 'left-out'
  readonly reason: string
}

export type SourceRecord = ItemRecord | RevisionRecord | RefusedRecord | LeftOutRecord

/** Yields the records of an input in their order, page by page. Errors: SourceError. */
export type Pages = AsyncGenerator<SourceRecord[]>

export function itemRecord(
  line: number,
  item: JsonObject,
  attachments: readonly SourceAttachment[] = [],
): ItemRecord {
  return { kind: 'item', line, item, attachments }
}

/** Thrown inside a format: the record is refused for this reason. */
export class RecordRefusal extends Error {
  override readonly name = 'RecordRefusal'
}

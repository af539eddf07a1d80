import type { Block, Head } from '../../chain/index.ts'
import { StoreError } from '../errors.ts'
import type { StoredDatabase, StoredItem } from '../store.ts'

/** A row as the driver gives it. */
type Row = Record<string, unknown>

/** Rows are read with their types checked: a damaged file gives STORE_DAMAGED, never odd values. */
function text(row: Row, column: string): string {
  const value = row[column]
  if (typeof value !== 'string') throw damaged(column)
  return value
}

function integer(row: Row, column: string): number {
  const value = row[column]
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw damaged(column)
  return value
}

function bytes(row: Row, column: string): Uint8Array {
  const value = row[column]
  if (!(value instanceof Uint8Array)) throw damaged(column)
  return value
}

function damaged(column: string): StoreError {
  return new StoreError('STORE_DAMAGED', `column ${column} does not hold what it must`)
}

/** A row of `databases`. */
export function databaseOf(row: Row): StoredDatabase {
  return { name: text(row, 'name'), created: integer(row, 'created') }
}

/** A row of `dropped`. */
export function droppedOf(row: Row): number {
  return integer(row, 'db')
}

/** A row of `items` without its text. */
export function positionsOf(row: Row): Omit<StoredItem, 'text'> {
  return {
    id: text(row, 'id'),
    created: integer(row, 'created'),
    revision: integer(row, 'revision'),
  }
}

/** A row of `items`. */
export function itemOf(row: Row): StoredItem {
  return {
    id: text(row, 'id'),
    created: integer(row, 'created'),
    revision: integer(row, 'revision'),
    text: text(row, 'item'),
  }
}

/** The columns height, id and timestamps of a row of `blocks`. */
export function headOfRow(row: Row): Head {
  const timestamps = integers(row)
  return {
    height: integer(row, 'height'),
    id: text(row, 'id'),
    timestamp: timestamps.at(-1) ?? 0,
  }
}

/** A row of `blocks`. What it says is checked by `verifyBlock`, not here. */
export function blockOf(row: Row): Block {
  return {
    serverId: integer(row, 'serverid'),
    height: integer(row, 'height'),
    id: text(row, 'id'),
    prevId: row.prev_id === null ? null : text(row, 'prev_id'),
    nonce: integer(row, 'nonce'),
    root: text(row, 'root'),
    entries: text(row, 'body').split('\n'),
    timestamps: integers(row),
    blinds: bytes(row, 'blinds'),
    commitments: bytes(row, 'commitments'),
  }
}

function integers(row: Row): number[] {
  return text(row, 'timestamps')
    .split('\n')
    .map((line) => (/^(0|-?[1-9]\d*)$/.test(line) ? Number(line) : Number.NaN))
}

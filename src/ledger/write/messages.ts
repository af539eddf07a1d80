import { deserialize, serialize } from 'node:v8'
import type { Head } from '../../chain/index.ts'
import type { IndexOutcome } from '../../storage/index.ts'
import type { LedgerErrorCode } from '../errors.ts'
import type { RequestConditions } from './request-conditions.ts'
import type { Operation, Outcome, UnitOfWork } from './unit-of-work.ts'

/**
 * A unit of work in the queue. `postMessage` clones a short unit. A long unit is packed as bytes before it enters the
 * queue, and the bytes are transferred to the thread without a copy. Otherwise the texts of long lists would use most
 * of a node's memory, because V8 frees them late. Layout: the length of the head, the head (the operations in V8's
 * serialization, with the length of each text instead of the text), then the texts as UTF-8.
 */
export type PackedUnit = UnitOfWork | Uint8Array<ArrayBuffer>

/** Minimum estimated bytes of a unit of work that is packed as bytes. */
const BYTES_MIN = 32 * 1024
const HEAD_OFFSET = 4

type WithoutText = Operation | (Omit<Operation, 'text'> & { readonly text: number })

/** Packs `unit`, whose estimated size is `bytes`. */
export function packUnit(unit: UnitOfWork, bytes: number): PackedUnit {
  if (bytes < BYTES_MIN) return unit
  const texts: string[] = []
  let textBytes = 0
  const operations = unit.map((operation): WithoutText => {
    if (!('text' in operation)) return operation
    const length = Buffer.byteLength(operation.text)
    texts.push(operation.text)
    textBytes += length
    return { ...operation, text: length }
  })
  const head = serialize(operations)
  const packed = Buffer.from(new ArrayBuffer(HEAD_OFFSET + head.length + textBytes))
  packed.writeUInt32LE(head.length)
  packed.set(head, HEAD_OFFSET)
  let at = HEAD_OFFSET + head.length
  for (const text of texts) at += packed.write(text, at)
  return packed
}

function unpackBytes(packed: Uint8Array): UnitOfWork {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.length)
  let at = HEAD_OFFSET + bytes.readUInt32LE()
  const operations: WithoutText[] = deserialize(bytes.subarray(HEAD_OFFSET, at))
  const unit = operations.map((operation) => {
    if (!('text' in operation)) return operation
    const end = at + Number(operation.text)
    const text = bytes.toString('utf8', at, end)
    at = end
    return { ...operation, text } as Operation
  })
  return unit
}

/** The names of the members of each kind of operation, except `kind`, in the order of their values in a batch. */
const MEMBERS: { readonly [Kind in Operation['kind']]: readonly string[] } = {
  create_db: ['db'],
  delete_db: ['db'],
  create_item: ['db', 'id', 'text', 'assigned'],
  update_item: ['db', 'id', 'text'],
  patch_item: ['db', 'id', 'text', 'currentBytes'],
  delete_item: ['db', 'id'],
  create_attachment: ['db', 'id', 'text'],
  delete_attachment: ['db', 'id', 'name'],
  erase_item: ['db', 'of', 'positions'],
}

/**
 * The units of a block as one list. A unit is either packed as bytes, or listed as its number of operations
 * followed by kind and values of each operation. Cloning the list takes half the time of cloning objects.
 */
export type PackedBatch = readonly unknown[]

export function packBatch(units: readonly PackedUnit[]): PackedBatch {
  const batch: unknown[] = []
  for (const unit of units) {
    if (unit instanceof Uint8Array) {
      batch.push(unit)
      continue
    }
    batch.push(unit.length)
    for (const operation of unit) {
      const values: Readonly<Record<string, unknown>> = operation
      batch.push(operation.kind)
      for (const member of MEMBERS[operation.kind]) batch.push(values[member])
    }
  }
  return batch
}

export function unpackBatch(batch: PackedBatch): UnitOfWork[] {
  const units: UnitOfWork[] = []
  for (let at = 0; at < batch.length; ) {
    const first = batch[at]
    at += 1
    if (first instanceof Uint8Array) {
      units.push(unpackBytes(first))
      continue
    }
    const unit: Operation[] = []
    for (let count = Number(first); count > 0; count -= 1) {
      const kind = batch[at] as Operation['kind']
      const operation: Record<string, unknown> = { kind }
      for (const member of MEMBERS[kind]) {
        at += 1
        operation[member] = batch[at]
      }
      at += 1
      unit.push(operation as Operation)
    }
    units.push(unit)
  }
  return units
}

/**
 * Messages to the writer thread: the units of work of the next block, an index change, or the request to close.
 */
export type ToWriter =
  | {
      readonly units: PackedBatch
      readonly nowMs: number
      /** Conditions by index of the unit; absent if no unit has conditions. */
      readonly conditions?: ReadonlyMap<number, RequestConditions>
    }
  | { readonly index: 'add' | 'remove'; readonly db: string; readonly path: string }
  /** A block that this process has read or signed. */
  | { readonly seen: SeenBlock }
  | { readonly close: true }

export type SeenBlock = Pick<Head, 'height' | 'id'>

export interface CommittedBlock {
  readonly height: number
  readonly id: string
  readonly entries: number
  /** Total bytes of the texts of the entries. */
  readonly bytes: number
  /** Duration of the commit, milliseconds. */
  readonly ms: number
}

/** A failure of the store. If `stopped` is true, the writer accepts no more changes. */
export interface StoreRefusal {
  readonly refused: LedgerErrorCode
  readonly reason: string
  readonly stopped: boolean
}

/** Messages from the writer thread. */
export type FromWriter =
  | { readonly ready: true }
  /** Answers the oldest units. The accepted ones are durable. `block` is null if all were rejected. */
  | { readonly block: CommittedBlock | null; readonly outcomes: readonly Outcome[] }
  /** The store failed. If `unknown` is true, the units may have been recorded; otherwise no unit was recorded. */
  | (StoreRefusal & { readonly unknown: boolean })
  /** Outcome of the oldest index change; null if the store failed. */
  | { readonly indexed: IndexOutcome }
  | (StoreRefusal & { readonly indexed: null })
  /** The database server answers again after STORE_UNAVAILABLE or OUTCOME_UNKNOWN. */
  | { readonly available: true }
  /** The disk has free space again after STORE_FULL. */
  | { readonly hasSpace: true }
  /** Maintenance failed permanently, and the writer has stopped. */
  | { readonly maintenanceFailed: string; readonly code: LedgerErrorCode }
  /** The thread could not start. */
  | { readonly code: string; readonly failed: string }
  | { readonly closed: true }

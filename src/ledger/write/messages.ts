import type { Head } from '../../chain/index.ts'
import type { IndexOutcome } from '../../storage/index.ts'
import type { LedgerErrorCode } from '../errors.ts'
import type { RequestConditions } from './request-conditions.ts'
import type { UnitOfWork, UnitOutcome } from './unit-of-work.ts'

/**
 * Messages to the writer thread: the units of work of the next block, an index change, or the request to close.
 */
export type ToWriter =
  | {
      readonly units: readonly UnitOfWork[]
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
  | { readonly block: CommittedBlock | null; readonly outcomes: readonly UnitOutcome[] }
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

// The frequent messages are lists of strings and numbers, because the names of the members of an object are cloned with
// it. That takes 8 µs in each direction for a lone write, whose code and data are in no cache of the processor.

/** A batch without conditions. A unit that only creates an item is its database, id, text and `assigned`. */
export type PackedBatch = readonly [nowMs: number, ...units: (string | boolean | UnitOfWork)[]]

/** Number of members of a creation without author and reason: those of `PackedBatch`, and `kind`. */
const CREATION_MEMBERS = 5

/** A committed block. An outcome that is only an index is this number. */
export type PackedCommit = readonly [
  ...[height: number, id: string, entries: number, bytes: number, ms: number],
  ...outcomes: (number | UnitOutcome)[],
]

export function packRequest(message: ToWriter): ToWriter | PackedBatch {
  if (!('units' in message) || message.conditions !== undefined) return message
  const packed: (string | boolean | UnitOfWork)[] = []
  for (const unit of message.units) {
    const [first, second] = unit
    const isPlain = second === undefined && first?.kind === 'create_item'
    // Every other member, such as the author, needs the whole object.
    if (isPlain && Object.keys(first).length === CREATION_MEMBERS) {
      packed.push(first.db, first.id, first.text, first.assigned)
    } else packed.push(unit)
  }
  return [message.nowMs, ...packed]
}

export function unpackRequest(message: ToWriter | PackedBatch): ToWriter {
  if (!('length' in message)) return message
  const [nowMs, ...packed] = message
  const units: UnitOfWork[] = []
  for (let at = 0; at < packed.length; at += 1) {
    const [first, id, text, assigned] = packed.slice(at, at + 4)
    if (typeof first === 'object') units.push(first)
    else if (typeof first === 'string' && typeof id === 'string' && typeof text === 'string') {
      units.push([{ kind: 'create_item', db: first, id, text, assigned: assigned === true }])
      at += 3
    }
  }
  return { units, nowMs }
}

export function packReply(message: FromWriter): FromWriter | PackedCommit {
  if (!('outcomes' in message) || message.block === null) return message
  const { height, id, entries, bytes, ms } = message.block
  const outcomes = message.outcomes.map((outcome) =>
    'index' in outcome && Object.keys(outcome).length === 1 ? outcome.index : outcome,
  )
  return [height, id, entries, bytes, ms, ...outcomes]
}

export function unpackReply(message: FromWriter | PackedCommit): FromWriter {
  if (!('length' in message)) return message
  const [height, id, entries, bytes, ms, ...packed] = message
  const outcomes = packed.map((outcome) =>
    typeof outcome === 'number' ? { index: outcome } : outcome,
  )
  return { block: { height, id, entries, bytes, ms }, outcomes }
}

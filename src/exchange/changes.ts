import { hash } from 'node:crypto'
import type { Json } from '../base/json.ts'
import { JSON_DEPTH_MAX, StrictJsonError } from '../base/strict-json.ts'
import {
  LedgerError,
  networkItemId,
  type Operation,
  requireAttachmentName,
  toCreation,
} from '../ledger/core.ts'
import { assignId, type IdMember } from './formats/identity.ts'
import {
  type LeftOutRecord,
  type Located,
  RecordRefusal,
  type RefusedRecord,
  type RevisionRecord,
  type SourceAttachment,
  type SourceRecord,
} from './formats/record.ts'
import type { ChangeDecision } from './progress.ts'

/** Maximum nesting of an item in a list of changes, which adds three levels. A deeper item is a separate batch. */
const SHARED_DEPTH_MAX = JSON_DEPTH_MAX - 3

export type ItemOperation =
  | Extract<Operation, { kind: 'create_item' } | { kind: 'delete_item' }>
  | {
      readonly kind: 'update_item'
      readonly db: string
      readonly id: string
      readonly text: string
    }

/** The change that a record makes to an item. */
export interface PlannedChange {
  readonly kind: 'change'
  readonly place: Located
  readonly operation: ItemOperation
  /** Whether the change is a later revision of an item. Such a change creates the item if it does not exist. */
  readonly isRevision: boolean
  /** Whether the item is too deep for a list of changes. */
  readonly isAlone: boolean
  readonly attachments: readonly SourceAttachment[]
}

export interface PlanOptions {
  /** Returns the database for a table of the source. `table` is null if the source has no tables. */
  readonly chooseDatabase: (table: string | null) => string
  readonly idMember: IdMember | null
}

/** Returns the change that `record` makes, unless it is refused or left out. `newId` is called if it has no id. */
export function plannedChange(
  record: SourceRecord,
  { idMember, chooseDatabase }: PlanOptions,
  newId: () => string,
): PlannedChange | RefusedRecord | LeftOutRecord {
  if (record.kind === 'left-out' || record.kind === 'refused') return record
  const { line, file } = record
  const place: Located = file === undefined ? { line } : { line, file }
  try {
    if (record.kind === 'revision')
      return plannedRevision(place, record, chooseDatabase(record.table))
    if (idMember === null && typeof record.item.id === 'number') {
      throw new RecordRefusal('its id is a number; --id id converts the id to a string')
    }
    const item = idMember === null ? record.item : assignId(record.item, idMember)
    const operation = toCreation(chooseDatabase(null), item, newId)
    refuseNetworkItem(operation)
    const { attachments } = record
    for (const { name } of attachments) requireAttachmentName(name)
    const isAlone = isDeeper(item, SHARED_DEPTH_MAX)
    return { kind: 'change', place, operation, attachments, isRevision: false, isAlone }
  } catch (error) {
    return { kind: 'refused', ...place, reason: requireRefusalReason(error) }
  }
}

/** Errors: RecordRefusal, LedgerError. */
function plannedRevision(
  place: Located,
  { id, isFirst, item }: RevisionRecord,
  db: string,
): PlannedChange {
  const { text } = toCreation(db, { ...item, id }, () => id)
  const operation: ItemOperation =
    item === null
      ? { kind: 'delete_item', db, id }
      : isFirst
        ? { kind: 'create_item', db, id, text, assigned: false }
        : { kind: 'update_item', db, id, text }
  refuseNetworkItem(operation)
  const isAlone = isDeeper(item, SHARED_DEPTH_MAX)
  return { kind: 'change', place, operation, attachments: [], isRevision: !isFirst, isAlone }
}

/** Decisions of a batch without conflicts. */
export const DECISIONS = { create_item: 'c', update_item: 'u', delete_item: 'd' } as const

/** Returns the changes that `decisions` make. */
export function changesFor(
  changes: readonly PlannedChange[],
  decisions: readonly ChangeDecision[],
): PlannedChange[] {
  return changes.flatMap((change, at): PlannedChange | [] => {
    const { operation } = change
    const decision = decisions[at]
    if (decision === DECISIONS[operation.kind]) return change
    if (operation.kind === 'delete_item' || (decision !== 'c' && decision !== 'u')) return []
    const { db, id, text } = operation
    return {
      ...change,
      operation:
        decision === 'c'
          ? { kind: 'create_item', db, id, text, assigned: false }
          : { kind: 'update_item', db, id, text },
    }
  })
}

/** Returns a hash of changes, by which they are recognized in a resumed load. */
export function hashChanges(changes: readonly PlannedChange[]): string {
  const texts = changes.map(({ operation }) => {
    const { kind, db, id } = operation
    // Names and canonical texts contain no line feed.
    return `${kind}\n${db}\n${id}\n${'text' in operation ? operation.text : ''}`
  })
  return hash('sha256', texts.join('\n'), 'hex')
}

/** Returns a key for the item of an operation. The key is unique, because a database name contains no slash. */
export function operationKey({ db, id }: ItemOperation): string {
  return `${db}/${id}`
}

/** Refuses the item that records a network, because only the network itself may create it. Errors: RecordRefusal. */
function refuseNetworkItem({ db, id }: ItemOperation): void {
  if (id === networkItemId(db)) throw new RecordRefusal(`the id ${id} is reserved for a network`)
}

/** Whether `value` has more than `levels` levels of arrays and objects. */
function isDeeper(value: Json, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) return value.some((each) => isDeeper(each, levels - 1))
  for (const name in value) if (isDeeper(value[name] ?? null, levels - 1)) return true
  return false
}

/** Returns the message of `error` if it concerns a single record; otherwise throws `error`. */
function requireRefusalReason(error: unknown): string {
  const isOfDatabase = error instanceof LedgerError && error.code.startsWith('DATABASE_')
  const isRefusal =
    error instanceof RecordRefusal ||
    error instanceof StrictJsonError ||
    (error instanceof LedgerError && !isOfDatabase)
  if (isRefusal) return error.message
  throw error
}

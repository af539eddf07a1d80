import { CodedError } from '../base/coded-error.ts'
import { StrictJsonError } from '../base/strict-json.ts'
import { checkAttachmentName, creationOf, LedgerError, type Operation } from '../ledger/core.ts'
import { SourceError } from './errors.ts'
import { type IdMember, withId } from './formats/identity.ts'
import {
  type LeftOutRecord,
  type Located,
  type Pages,
  placeOf,
  RecordRefusal,
  type RefusedRecord,
  type RevisionRecord,
  type SourceAttachment,
  type SourceRecord,
} from './formats/record.ts'
import type { LoadTarget } from './target.ts'

// A load groups records into batches. Each batch is one unit of work, so a block contains either the whole batch or
// nothing of the batch. Batches depend only on the input and the options, not on time, so a resumed load makes the same
// batches with the same idempotency keys.
//
// What a resumed load does with a batch depends on when the process ended:
// - Before the batch was recorded: the resumed load sends the batch.
// - After the batch was recorded, before the acknowledgement was saved: the resumed load sends the batch again with the
//   same key, and the ledger returns the first result. The ledger keeps keys for 24 hours. Later, items with ids would
//   conflict with the items already loaded, and items without ids would be loaded twice.
// - After the items of the batch were recorded, before all attachments were: the resumed load sends the items and the
//   attachments again. Each attachment has its own key.
// - After the acknowledgement was saved: the resumed load skips the records of the batch.

/** Maximum records per batch. A batch fits into one block of the ledger, which has at most 1,024 entries. */
export const BATCH_RECORDS = 1_000
/** Maximum bytes of a batch, unless a single item is larger. A request can be up to 10 MiB. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024
/** Maximum bytes of attachments in memory per batch, unless a single record has more. */
const BATCH_ATTACHMENT_BYTES_MAX = 16 * 1024 * 1024
/** Maximum number of batches that are being recorded at the same time. */
const IN_FLIGHT_MAX = 4
/** Maximum number of concurrent reads of existing items. */
const READS_MAX = 16
/** Maximum attempts to record a batch while other clients change the same items. */
const ATTEMPTS_MAX = 3

export const CONFLICT_POLICIES = ['fail', 'skip', 'replace'] as const
/** How to treat an item whose id exists: end the load, leave the record out, or replace the item. */
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

export interface LoadCounts {
  /** Records that were read so far. */
  readonly records: number
  readonly created: number
  readonly replaced: number
  readonly deleted: number
  readonly attachments: number
  /** Records that were left out because their item existed and the conflict policy is `skip`. */
  readonly skipped: number
  readonly refused: number
  /** Number of records that the format leaves out, for each reason, such as design documents of CouchDB. */
  readonly leftOut: Readonly<Record<string, number>>
}

export const NO_COUNTS: LoadCounts = {
  ...{ records: 0, created: 0, replaced: 0, deleted: 0 },
  ...{ attachments: 0, skipped: 0, refused: 0, leftOut: {} },
}

export interface Refusal extends Located {
  readonly reason: string
}

/** Number of acknowledged batches, and their counts. A resumed load continues after these batches. */
export interface LoadPosition {
  readonly batches: number
  readonly counts: LoadCounts
}

export interface LoadOptions {
  /** Returns the database for a table of the source. `table` is null if the source has no tables. */
  readonly databaseOf: (table: string | null) => string
  readonly idMember: IdMember | null
  readonly onConflict: ConflictPolicy
  /** Unique id of the load. A resumed load has the id of the interrupted load. */
  readonly loadId: string
  readonly newId: () => string
  /** The position of an earlier, interrupted run of this load. */
  readonly from?: LoadPosition
  /** Called for each acknowledged batch, in the order of the input. */
  readonly acknowledged: (position: LoadPosition, refusals: readonly Refusal[]) => void
  readonly databaseCreated?: (db: string) => void
}

/** The load ended early, for the reason in the message. */
export class LoadError extends Error {
  override readonly name = 'LoadError'
  /** Counts of all recorded batches, including batches after a failed batch. */
  readonly counts: LoadCounts

  constructor(message: string, counts: LoadCounts, options?: ErrorOptions) {
    super(message, options)
    this.counts = counts
  }
}

/** Thrown to end the load early. The message is the reason. */
class Stop extends Error {}

type ItemOperation =
  | Extract<Operation, { kind: 'create_item' } | { kind: 'delete_item' }>
  | {
      readonly kind: 'update_item'
      readonly db: string
      readonly id: string
      readonly text: string
    }

/** The change that a record makes to an item. */
interface PlannedChange {
  readonly kind: 'change'
  readonly place: Located
  readonly operation: ItemOperation
  /** Whether the change is a later revision of an item. Such a change creates the item if it does not exist. */
  readonly isRevision: boolean
  readonly attachments: readonly SourceAttachment[]
}

type Tally = { -readonly [Name in keyof LoadCounts]: LoadCounts[Name] }

interface Batch {
  readonly number: number
  readonly changes: PlannedChange[]
  readonly refusals: Refusal[]
  readonly leftOut: Record<string, number>
  readonly keys: Set<string>
  records: number
  bytes: number
  attachmentBytes: number
}

/**
 * Loads the records of `pages` into `target`. Resolves when all batches are acknowledged. Errors: LoadError; the errors
 * that `acknowledged` throws.
 */
export async function loadRecords(
  pages: Pages,
  target: LoadTarget,
  options: LoadOptions,
): Promise<LoadCounts> {
  return new Loader(target, options).load(pages)
}

class Loader {
  readonly #target: LoadTarget
  readonly #options: LoadOptions
  readonly #databases = new Set<string>()
  /** Batches that were sent and are neither recorded nor failed yet, oldest first. */
  #inFlight: { readonly keys: ReadonlySet<string>; readonly settled: Promise<void> }[] = []
  /** Resolves when all batches sent so far have been acknowledged or have failed. */
  #acknowledged: Promise<void> = Promise.resolve()
  #failure: { readonly error: unknown } | null = null
  /** Position after the last batch for which `acknowledged` was called. */
  #position: LoadPosition
  /** Counts of all recorded batches, which can be ahead of `#position`. */
  #counts: LoadCounts
  /** Whether the last batch contained ids of existing items. If so, existing items are read before the next batch. */
  #expectsConflicts = false
  #batch: Batch

  constructor(target: LoadTarget, options: LoadOptions) {
    this.#target = target
    this.#options = options
    this.#position = options.from ?? { batches: 0, counts: NO_COUNTS }
    this.#counts = this.#position.counts
    this.#batch = newBatch(this.#position.batches)
  }

  async load(pages: Pages): Promise<LoadCounts> {
    let toSkip = this.#position.counts.records
    try {
      for await (const page of pages) {
        for (const record of page) {
          if (toSkip > 0) toSkip -= 1
          else await this.#add(record)
        }
      }
      await this.#send()
    } catch (error) {
      this.#failure ??= { error }
    }
    await Promise.all(this.#inFlight.map(({ settled }) => settled))
    await this.#acknowledged
    if (this.#failure === null) return this.#counts
    const { error } = this.#failure
    const isExpected =
      error instanceof Stop || error instanceof SourceError || error instanceof CodedError
    throw isExpected ? new LoadError(error.message, this.#counts, { cause: error }) : error
  }

  async #add(record: SourceRecord): Promise<void> {
    const planned = this.#planned(record)
    const change = planned.kind === 'change' ? planned : null
    const bytes =
      change === null || !('text' in change.operation) ? 0 : change.operation.text.length
    let attachmentBytes = 0
    for (const attachment of change?.attachments ?? []) attachmentBytes += attachment.bytes.length
    const { records } = this.#batch
    const isFull =
      records === BATCH_RECORDS ||
      this.#batch.bytes + bytes > BATCH_BYTES_MAX ||
      this.#batch.attachmentBytes + attachmentBytes > BATCH_ATTACHMENT_BYTES_MAX
    if (isFull && records > 0) await this.#send()
    const batch = this.#batch
    batch.records += 1
    batch.bytes += bytes
    batch.attachmentBytes += attachmentBytes
    if (change !== null) {
      const { operation } = change
      batch.changes.push(change)
      const isNewId = operation.kind === 'create_item' && operation.assigned
      if (!isNewId) batch.keys.add(keyOf(operation))
    } else if (planned.kind === 'left-out') addTo(batch.leftOut, planned.reason)
    else if (planned.kind === 'refused') batch.refusals.push(planned)
  }

  #planned(record: SourceRecord): PlannedChange | RefusedRecord | LeftOutRecord {
    if (record.kind === 'left-out' || record.kind === 'refused') return record
    const { line, file } = record
    const place: Located = file === undefined ? { line } : { line, file }
    try {
      if (record.kind === 'revision') return this.#revision(place, record)
      const { idMember, databaseOf, newId } = this.#options
      if (idMember === null && typeof record.item.id === 'number') {
        throw new RecordRefusal('its id is a number; --id id converts the id to a string')
      }
      const item = idMember === null ? record.item : withId(record.item, idMember)
      const operation = creationOf(databaseOf(null), item, newId)
      const { attachments } = record
      for (const { name } of attachments) checkAttachmentName(name)
      return { kind: 'change', place, operation, attachments, isRevision: false }
    } catch (error) {
      return { kind: 'refused', ...place, reason: reasonOf(error) }
    }
  }

  /** Returns the change for a revision. Errors: RecordRefusal, LedgerError. */
  #revision(place: Located, { table, id, isFirst, item }: RevisionRecord): PlannedChange {
    const db = this.#options.databaseOf(table)
    const { text } = creationOf(db, { ...item, id }, this.#options.newId)
    const operation: ItemOperation =
      item === null
        ? { kind: 'delete_item', db, id }
        : isFirst
          ? { kind: 'create_item', db, id, text, assigned: false }
          : { kind: 'update_item', db, id, text }
    return { kind: 'change', place, operation, attachments: [], isRevision: !isFirst }
  }

  /** Sends the current batch, but first waits for batches in flight that change the same items. */
  async #send(): Promise<void> {
    const batch = this.#batch
    if (batch.records === 0) return
    this.#batch = newBatch(batch.number + 1)
    await this.#createDatabases(batch)
    while (this.#failure === null) {
      const others = this.#inFlight
      const overlapping = others.find(({ keys }) => !keys.isDisjointFrom(batch.keys))
      const awaited = overlapping ?? (others.length < IN_FLIGHT_MAX ? undefined : others[0])
      if (awaited === undefined) break
      await awaited.settled
    }
    if (this.#failure !== null) throw this.#failure.error
    const recorded = this.#record(batch)
    const settled = recorded.then(
      (tally) => {
        this.#counts = sum(this.#counts, tally)
      },
      (error: unknown) => {
        this.#failure ??= { error }
      },
    )
    const flight = { keys: batch.keys, settled }
    this.#inFlight.push(flight)
    void settled.then(() => {
      this.#inFlight = this.#inFlight.filter((other) => other !== flight)
    })
    this.#acknowledged = Promise.all([this.#acknowledged, settled]).then(async () => {
      // After a failed batch, no later batch is acknowledged, because a resumed load continues with the failed batch.
      if (this.#position.batches !== batch.number) return
      const tally = await recorded.catch(() => null)
      if (tally === null) return
      const position = { batches: batch.number + 1, counts: sum(this.#position.counts, tally) }
      try {
        this.#options.acknowledged(position, batch.refusals)
        this.#position = position
      } catch (error) {
        this.#failure ??= { error }
      }
    })
  }

  async #createDatabases({ changes }: Batch): Promise<void> {
    for (const { operation } of changes) {
      const { db } = operation
      if (this.#databases.has(db)) continue
      if (await this.#target.createDatabase(db)) this.#options.databaseCreated?.(db)
      this.#databases.add(db)
    }
  }

  /** Records a batch and its attachments, and returns the counts of the batch. */
  async #record(batch: Batch): Promise<LoadCounts> {
    const tally: Tally = {
      ...NO_COUNTS,
      records: batch.records,
      refused: batch.refusals.length,
      leftOut: batch.leftOut,
    }
    const recorded = await this.#recordChanges(batch, tally)
    for (const [at, { place, operation, attachments }] of recorded.entries()) {
      for (const [n, attachment] of attachments.entries()) {
        const { db, id } = operation
        const key = `${this.#options.loadId}-${batch.number}-${at}-${n}`
        try {
          await this.#target.attach(db, id, attachment, key)
          tally.attachments += 1
        } catch (error) {
          if (!isAttachmentError(error)) throw withPlace(place, error)
          // The item is loaded, so the refusal is about the attachment only.
          const reason = `item ${id} is loaded without attachment ${attachment.name}: ${error.message}`
          batch.refusals.push({ ...place, reason })
          tally.refused += 1
        }
      }
    }
    return tally
  }

  /** Records the changes of a batch. Returns the changes that were recorded after conflicts were resolved. */
  async #recordChanges(batch: Batch, tally: Tally): Promise<readonly PlannedChange[]> {
    const key = `${this.#options.loadId}-${batch.number}`
    let changes: readonly PlannedChange[] = batch.changes
    let isResolved = false
    for (let attempt = 1; ; attempt += 1) {
      if (this.#expectsConflicts || attempt > 1) {
        const resolved = await this.#resolved(batch.changes, tally)
        isResolved = true
        changes = resolved
      }
      if (changes.length === 0) return changes
      try {
        await this.#target.record(
          changes.map(({ operation }) => operation),
          key,
        )
      } catch (error) {
        const code = codeOf(error)
        const isConflict = code === 'ITEM_EXISTS' || code === 'ITEM_NOT_FOUND'
        if (isConflict && attempt < ATTEMPTS_MAX) continue
        // IDEMPOTENCY_KEY_REUSED means that an earlier run of this load has already recorded the batch, but resolved
        // conflicts with existing items differently.
        if (code !== 'IDEMPOTENCY_KEY_REUSED')
          throw withPlace(batch.changes[0]?.place ?? { line: 0 }, error)
      }
      if (!isResolved) this.#expectsConflicts = false
      for (const { operation } of changes) {
        if (operation.kind === 'create_item') tally.created += 1
        else if (operation.kind === 'update_item') tally.replaced += 1
        else tally.deleted += 1
      }
      return changes
    }
  }

  /** Resolves conflicts of `changes` with existing items: updates the item, skips the record, or ends the load. */
  async #resolved(changes: readonly PlannedChange[], tally: Tally): Promise<PlannedChange[]> {
    const existing = await this.#existing(changes)
    this.#expectsConflicts = existing.size > 0
    tally.skipped = 0
    const resolved: PlannedChange[] = []
    for (const change of changes) {
      const { operation, isRevision, place } = change
      const { kind, db, id } = operation
      const key = keyOf(operation)
      const exists = existing.has(key)
      if (kind === 'delete_item') {
        if (!exists) continue
        existing.delete(key)
        resolved.push(change)
        continue
      }
      existing.add(key)
      if (!exists) {
        const { text } = operation
        resolved.push({
          ...change,
          operation: { kind: 'create_item', db, id, text, assigned: false },
        })
      } else if (isRevision || this.#options.onConflict === 'replace') {
        const { text } = operation
        resolved.push({ ...change, operation: { kind: 'update_item', db, id, text } })
      } else if (this.#options.onConflict === 'skip') tally.skipped += 1
      else {
        const message = `${placeOf(place)}: item ${id} of ${db} exists already`
        throw new Stop(`${message}; use --on-conflict skip or replace`)
      }
    }
    return resolved
  }

  /** Returns `keyOf` for the items of `changes` that exist. */
  async #existing(changes: readonly PlannedChange[]): Promise<Set<string>> {
    const operations = changes
      .map(({ operation }) => operation)
      .filter((operation) => operation.kind !== 'create_item' || !operation.assigned)
    const existing = new Set<string>()
    const readers = Array.from({ length: READS_MAX }, async () => {
      for (let next = operations.pop(); next !== undefined; next = operations.pop()) {
        if (await this.#target.exists(next.db, next.id)) existing.add(keyOf(next))
      }
    })
    await Promise.all(readers)
    return existing
  }
}

/** Returns an error of the ledger with the location of the batch in its message; returns other errors unchanged. */
function withPlace(place: Located, error: unknown): unknown {
  if (!(error instanceof CodedError)) return error
  const message = `the batch that starts at ${placeOf(place)} was not loaded: ${error.message}`
  return new Stop(message, { cause: error })
}

function newBatch(number: number): Batch {
  return {
    ...{ number, changes: [], refusals: [], leftOut: {}, keys: new Set<string>() },
    ...{ records: 0, bytes: 0, attachmentBytes: 0 },
  }
}

/** Returns a key for the item of an operation. The key is unique, because a database name contains no slash. */
function keyOf({ db, id }: ItemOperation): string {
  return `${db}/${id}`
}

function addTo(counts: Record<string, number>, name: string, count = 1): void {
  counts[name] = (counts[name] ?? 0) + count
}

function sum(one: LoadCounts, other: LoadCounts): LoadCounts {
  const leftOut = { ...one.leftOut }
  for (const [reason, count] of Object.entries(other.leftOut)) addTo(leftOut, reason, count)
  return {
    records: one.records + other.records,
    created: one.created + other.created,
    replaced: one.replaced + other.replaced,
    deleted: one.deleted + other.deleted,
    attachments: one.attachments + other.attachments,
    skipped: one.skipped + other.skipped,
    refused: one.refused + other.refused,
    leftOut,
  }
}

/** Returns the message of `error` if it concerns a single record; otherwise throws `error`. */
function reasonOf(error: unknown): string {
  const isOfDatabase = error instanceof LedgerError && error.code.startsWith('DATABASE_')
  const isRefusal =
    error instanceof RecordRefusal ||
    error instanceof StrictJsonError ||
    (error instanceof LedgerError && !isOfDatabase)
  if (isRefusal) return error.message
  throw error
}

function codeOf(error: unknown): string | null {
  return error instanceof CodedError ? String(error.code) : null
}

function isAttachmentError(error: unknown): error is CodedError<string> {
  return codeOf(error)?.startsWith('ATTACHMENT_') === true
}

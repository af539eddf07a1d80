import { hash } from 'node:crypto'
import { CodedError } from '../base/coded-error.ts'
import { errorMessage } from '../base/errors.ts'
import { Batch } from './batch.ts'
import {
  changesFor,
  DECISIONS,
  hashChanges,
  type ItemOperation,
  operationKey,
  type PlannedChange,
  type PlanOptions,
  plannedChange,
} from './changes.ts'
import type { ConflictPolicy } from './choices.ts'
import { formatRecordLocation, type RecordPages, type SourceRecord } from './formats/record.ts'
import {
  type ChangeDecision,
  countChanges,
  formatDecisions,
  type LoadCounts,
  type LoadNote,
  type LoadPosition,
  LoadProgress,
  type LoadRefusal,
  NO_COUNTS,
  parseDecisions,
  sumCounts,
} from './progress.ts'
import { isOutcomeUnknown, type LoadTarget } from './target.ts'

// A load groups records into batches. Each batch is one unit of work, so a block contains either the whole batch or
// nothing of the batch. Batches depend only on the input and the options, not on time, so a resumed load makes the same
// batches.
//
// The notes of a load (`LoadNote`) decide how a resumed load treats a batch:
// - Nothing: the batch was never sent.
// - A plan without an outcome: the batch may be in the ledger. The resumed load sends the same changes with the same
//   idempotency key. If the ledger does not know the key any more, because 24 hours have passed or the token belongs to
//   another subject, the items of the batch show whether it was recorded.
// - A recorded plan: the resumed load stores the attachments that are not settled yet.
// - Finished: the resumed load skips the records of the batch.
// The key of a request contains the digest of its changes, so no two different requests have the same key.

/** Maximum number of batches that are being recorded at the same time. */
const IN_FLIGHT_MAX = 4
/** Maximum number of concurrent reads of existing items. */
const READS_MAX = 16
/** Maximum attempts to record a batch while other clients change the same items. */
const ATTEMPTS_MAX = 3

export interface LoadOptions extends PlanOptions {
  readonly onConflict: ConflictPolicy
  /** Unique id of the load. A resumed load has the id of the interrupted load. */
  readonly loadId: string
  /** Returns the id of an item whose record has none. The same record has the same id in a resumed load. */
  readonly newId: (record: number) => string
  /** The progress of an earlier, interrupted run of this load. Its `databases` must still exist (`findCreation`). */
  readonly progress?: LoadProgress
  /** Writes a note down. The load waits for the promise before it sends a request. */
  readonly write: (note: LoadNote) => Promise<void>
  /** Called for each finished batch, in the order of the input, before its note is written. */
  readonly finished: (position: LoadPosition, refusals: readonly LoadRefusal[]) => void
}

/** The load ended early, for the reason in the message. */
export class LoadError extends Error {
  override readonly name = 'LoadError'
  /** Counts of everything that is in the ledger, including batches after a failed batch. */
  readonly counts: LoadCounts
  /** Number of changes and attachments that were sent and may be in the ledger or not. */
  readonly unknown: number

  constructor(message: string, counts: LoadCounts, unknown: number, options?: ErrorOptions) {
    super(message, options)
    this.counts = counts
    this.unknown = unknown
  }
}

interface PlannedBatch {
  readonly number: number
  readonly changes: readonly PlannedChange[]
}

/** Thrown to end the load early. The message is the reason. */
class Stop extends Error {}

/**
 * Loads the records of `pages` into `target`. Resolves when all batches are finished. Errors: LoadError; the errors
 * that `write` and `finished` throw.
 */
export async function loadRecords(
  pages: RecordPages,
  target: LoadTarget,
  options: LoadOptions,
): Promise<LoadCounts> {
  return new Loader(target, options).load(pages)
}

class Loader {
  readonly #target: LoadTarget
  readonly #options: LoadOptions
  readonly #progress: LoadProgress
  readonly #databases = new Set<string>()
  /** Batches that were sent and have neither succeeded nor failed yet, oldest first. */
  #inFlight: { readonly keys: ReadonlySet<string>; readonly settled: Promise<void> }[] = []
  readonly #unfinished = new Map<number, Batch>()
  #failure: { readonly error: unknown } | null = null
  /** Number of records read so far. */
  #records = 0
  /** Whether the last batch contained ids of existing items. If so, existing items are read before the next batch. */
  #expectsConflicts = false
  #batch: Batch

  constructor(target: LoadTarget, options: LoadOptions) {
    this.#target = target
    this.#options = options
    this.#progress = options.progress ?? new LoadProgress()
    this.#batch = new Batch(this.#progress.position.batches)
  }

  async load(pages: RecordPages): Promise<LoadCounts> {
    const { records: toSkip } = this.#progress.position.counts
    try {
      for await (const page of pages) {
        for (const record of page) {
          this.#records += 1
          if (this.#records > toSkip) await this.#add(record)
        }
      }
      await this.#send()
    } catch (error) {
      this.#failure ??= { error }
    }
    await Promise.all(this.#inFlight.map(({ settled }) => settled))
    if (this.#failure === null) return this.#progress.position.counts
    const { error } = this.#failure
    if (!(error instanceof Stop) && !(error instanceof CodedError)) throw error
    let { counts } = this.#progress.position
    let unknown = this.#progress.creating.size
    for (const sent of this.#progress.sent.values()) {
      const changes = countChanges(sent)
      if (sent.isRecorded) counts = sumCounts(counts, changes)
      else unknown += changes.created + changes.replaced + changes.deleted
      if (sent.isAttaching) unknown += 1
    }
    throw new LoadError(error.message, counts, unknown, { cause: error })
  }

  async #add(record: SourceRecord): Promise<void> {
    const planned = plannedChange(record, this.#options, () => this.#options.newId(this.#records))
    if (this.#batch.add(planned)) return
    await this.#send()
    this.#batch.add(planned)
  }

  /** Sends the current batch, but first waits for batches in flight that change the same items. */
  async #send(): Promise<void> {
    const batch = this.#batch
    if (batch.records === 0) return
    this.#batch = new Batch(batch.number + 1)
    await this.#createDatabases(batch)
    while (this.#failure === null) {
      const others = this.#inFlight
      const overlapping = others.find(({ keys }) => !keys.isDisjointFrom(batch.keys))
      const awaited = overlapping ?? (others.length < IN_FLIGHT_MAX ? undefined : others[0])
      if (awaited === undefined) break
      await awaited.settled
    }
    if (this.#failure !== null) throw this.#failure.error
    this.#unfinished.set(batch.number, batch)
    const settled = this.#record(batch).catch((error: unknown) => {
      this.#failure ??= { error }
    })
    const flight = { keys: batch.keys, settled }
    this.#inFlight.push(flight)
    void settled.then(() => {
      this.#inFlight = this.#inFlight.filter((other) => other !== flight)
    })
  }

  async #createDatabases({ changes }: Batch): Promise<void> {
    for (const { operation } of changes) {
      const { db } = operation
      if (this.#databases.has(db)) continue
      // Known from an earlier run, whose databases the caller has compared.
      if (!this.#progress.databases.has(db)) {
        const isRepeated = this.#progress.creating.has(db)
        let creation = await this.#target.findCreation(db)
        let isNew = false
        if (creation === null || isRepeated) {
          if (!isRepeated) await this.#noteRequest({ creating: db })
          isNew = await this.#createDatabase(db, isRepeated)
          creation = await this.#target.findCreation(db)
        }
        await this.#noteOutcome({ created: db, isNew, creation })
      }
      this.#databases.add(db)
    }
  }

  /** `isRepeated`: an earlier run has sent the request, so a failure does not show its outcome. */
  async #createDatabase(db: string, isRepeated: boolean): Promise<boolean> {
    const key = `${this.#options.loadId}-${hash('sha256', db, 'hex')}`
    try {
      return await this.#target.createDatabase(db, key)
    } catch (error) {
      if (!isRepeated && !isOutcomeUnknown(error)) await this.#noteOutcome({ notCreated: db })
      throw error
    }
  }

  /** Records a batch and its attachments. Then finishes all batches that are next in the order of the input. */
  async #record(batch: Batch): Promise<void> {
    const earlier = this.#progress.sent.get(batch.number)
    batch.decisions = await this.#recordChanges(batch, earlier?.plan ?? null)
    await this.#attach(batch)
    batch.isDone = true
    await this.#finish()
  }

  async #finish(): Promise<void> {
    for (;;) {
      const { batches, counts } = this.#progress.position
      const batch = this.#unfinished.get(batches)
      if (batch?.isDone !== true) return
      const { records, refusals, leftOut, decisions } = batch
      const skipped = decisions.filter((decision) => decision === 's').length
      const sent = this.#progress.sent.get(batches)
      const changes = sent === undefined ? NO_COUNTS : countChanges(sent)
      const own = { ...changes, records, skipped, refused: refusals.length, leftOut }
      const finished = { batches: batches + 1, counts: sumCounts(counts, own) }
      this.#unfinished.delete(batches)
      this.#progress.add({ finished })
      await this.#written(async () => {
        this.#options.finished(finished, refusals)
        await this.#options.write({ finished })
      })
    }
  }

  /** Stores the attachments of a recorded batch, except those that an earlier run has settled. */
  async #attach({ number, changes, decisions, refusals }: Batch): Promise<void> {
    const { attachments: earlier = [], isAttaching: isRepeated = false } =
      this.#progress.sent.get(number) ?? {}
    const all = changesFor(changes, decisions).flatMap(
      ({ place, operation: { db, id }, attachments }) =>
        attachments.map((attachment) => ({ place, db, id, attachment })),
    )
    for (const [at, { place, db, id, attachment }] of all.entries()) {
      let outcome = earlier[at]
      if (outcome === undefined) {
        const key = `${this.#options.loadId}-${number}-${at}`
        await this.#noteRequest({ batch: number, attachment: 'sent' })
        try {
          await this.#target.attach(db, id, attachment, key)
          outcome = 'stored'
        } catch (error) {
          if (!isAttachmentError(error)) {
            const isUnknown = isOutcomeUnknown(error) || (isRepeated && at === earlier.length)
            if (!isUnknown) await this.#noteOutcome({ batch: number, attachment: 'not-stored' })
            const item = `item ${id} is loaded, and its attachment ${attachment.name}`
            throw stopAfter(
              error,
              (unknown) => `${item} ${unknown ? 'may or may not be' : 'is not'}`,
            )
          }
          // The item is loaded, so the refusal is about the attachment only.
          const reason = `item ${id} is loaded without attachment ${attachment.name}: ${error.message}`
          outcome = { ...place, reason }
        }
        await this.#noteOutcome({ batch: number, attachment: outcome })
      }
      if (outcome !== 'stored') refusals.push(outcome)
    }
  }

  /**
   * Records the changes of a batch, as planned by `earlier` if an earlier run has sent the batch. Returns the decision
   * about each change.
   */
  async #recordChanges(
    { number, changes: planned }: Batch,
    earlier: string | null,
  ): Promise<readonly ChangeDecision[]> {
    const batch = { number, changes: earlier === null ? planned : planned.map(withCheckedId) }
    if (earlier !== null) {
      const decisions = parseDecisions(earlier)
      if (await this.#repeat(batch, decisions)) return decisions
    }
    for (let attempt = 1; ; attempt += 1) {
      const isResolved = this.#expectsConflicts || attempt > 1
      const decisions = isResolved
        ? await this.#resolved(batch.changes)
        : batch.changes.map(({ operation }) => DECISIONS[operation.kind])
      const changes = changesFor(batch.changes, decisions)
      if (changes.length === 0) return decisions
      const digest = hashChanges(changes)
      const plan = formatDecisions(decisions)
      await this.#noteRequest({ batch: batch.number, plan, digest })
      const conflict = await this.#sendChanges(batch, changes, digest, false)
      if (conflict === null) {
        if (!isResolved) this.#expectsConflicts = false
        return decisions
      }
      if (attempt === ATTEMPTS_MAX) throw stopAfterBatch(batch.changes, conflict)
    }
  }

  /** Sends a batch of an earlier run again. Returns false if the batch was not recorded and conflicts with the ledger. */
  async #repeat(batch: PlannedBatch, decisions: readonly ChangeDecision[]): Promise<boolean> {
    const { number } = batch
    const changes = changesFor(batch.changes, decisions)
    const digest = hashChanges(changes)
    const sent = this.#progress.sent.get(number)
    if (sent?.digest !== digest || decisions.length !== batch.changes.length) {
      const place = formatRecordLocation(batch.changes[0]?.place ?? { line: 0 })
      const message = `the batch that starts at ${place} was another`
      throw new Stop(`the input is not that of the interrupted load: ${message}`)
    }
    if (sent.isRecorded) return true
    if (await this.#isInLedger(changes)) {
      await this.#noteOutcome({ batch: number, isRecorded: true })
      return true
    }
    return (await this.#sendChanges(batch, changes, digest, true)) === null
  }

  /**
   * Sends changes whose plan is written down. Returns null if they are recorded, or the conflict with an existing or a
   * missing item. `isRepeated`: an earlier run has sent them, so only a success or a conflict shows the outcome.
   */
  async #sendChanges(
    { number, changes: all }: PlannedBatch,
    changes: readonly PlannedChange[],
    digest: string,
    isRepeated: boolean,
  ): Promise<CodedError<string> | null> {
    const unit = changes.map(({ operation }) => operation)
    try {
      await this.#target.record(unit, `${this.#options.loadId}-${number}-${digest}`)
    } catch (error) {
      const isConflict = ['ITEM_EXISTS', 'ITEM_NOT_FOUND'].includes(findCode(error) ?? '')
      // The key belongs to these changes only, so they were recorded, and erased afterwards.
      const isErased = findCode(error) === 'IDEMPOTENCY_KEY_REUSED'
      const isUnknown = isOutcomeUnknown(error) || (isRepeated && !isConflict)
      if (!isErased) {
        if (!isUnknown) await this.#noteOutcome({ batch: number, isRecorded: false })
        if (isConflict && error instanceof CodedError) return error
        throw stopAfterBatch(all, error)
      }
    }
    await this.#noteOutcome({ batch: number, isRecorded: true })
    return null
  }

  /** Decides conflicts of `changes` with existing items: updates the item, skips the record, or ends the load. */
  async #resolved(changes: readonly PlannedChange[]): Promise<ChangeDecision[]> {
    const existing = await this.#matching(
      changes
        .map(({ operation }) => operation)
        .filter((operation) => operation.kind !== 'create_item' || !operation.assigned),
      (_, text) => text !== null,
    )
    this.#expectsConflicts = existing.size > 0
    return changes.map(({ operation, isRevision, place }) => {
      const { kind, db, id } = operation
      const key = operationKey(operation)
      const exists = existing.has(key)
      if (kind === 'delete_item') {
        existing.delete(key)
        return exists ? 'd' : '-'
      }
      existing.add(key)
      if (!exists) return 'c'
      if (isRevision || this.#options.onConflict === 'replace') return 'u'
      if (this.#options.onConflict === 'skip') return 's'
      const message = `${formatRecordLocation(place)}: item ${id} of ${db} exists already`
      throw new Stop(`${message}; use --on-conflict skip or replace`)
    })
  }

  /**
   * Returns whether the ledger has each item that `changes` create, as they leave it. Then the changes were recorded,
   * because these items did not exist when the changes were planned. Without created items, nothing is known.
   */
  async #isInLedger(changes: readonly PlannedChange[]): Promise<boolean> {
    const operations = changes.map(({ operation }) => operation)
    const created = operations.filter(({ kind }) => kind === 'create_item').map(operationKey)
    const last = new Map(operations.map((operation) => [operationKey(operation), operation]))
    const equal = await this.#matching(
      created.flatMap((key) => last.get(key) ?? []),
      (operation, text) => text === ('text' in operation ? operation.text : null),
    )
    return created.length > 0 && created.every((key) => equal.has(key))
  }

  /**
   * Reads the item of each operation, and returns the `operationKey` of each for which `matches` returns true. `text` is
   * null if the item does not exist. Keeps no text, because the items can be much larger than the batch.
   */
  async #matching(
    operations: readonly ItemOperation[],
    matches: (operation: ItemOperation, text: string | null) => boolean,
  ): Promise<Set<string>> {
    const matching = new Set<string>()
    const rest = [...operations]
    const readers = Array.from({ length: READS_MAX }, async () => {
      for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
        const text = await this.#target.read(next.db, next.id)
        if (matches(next, text)) matching.add(operationKey(next))
      }
    })
    await Promise.all(readers)
    return matching
  }

  /** Writes down that a request is sent. If this fails, the request is not sent. */
  async #noteRequest(note: LoadNote): Promise<void> {
    await this.#written(() => this.#options.write(note))
    this.#progress.add(note)
  }

  async #noteOutcome(note: LoadNote): Promise<void> {
    this.#progress.add(note)
    await this.#written(() => this.#options.write(note))
  }

  async #written(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      const reason = errorMessage(error)
      throw new Stop(`the progress of the load cannot be written: ${reason}`, { cause: error })
    }
  }
}

/**
 * Returns the reason why the load ends after an error of the ledger: `text` with the state of the change, known or
 * unknown. Returns other errors unchanged.
 */
function stopAfter(error: unknown, text: (isUnknown: boolean) => string): unknown {
  if (!(error instanceof CodedError)) return error
  return new Stop(`${text(isOutcomeUnknown(error))}: ${error.message}`, { cause: error })
}

/** Returns the reason why the load ends after a failed request with a batch. */
function stopAfterBatch([first]: readonly PlannedChange[], error: unknown): unknown {
  const batch = `the batch that starts at ${formatRecordLocation(first?.place ?? { line: 0 })}`
  return stopAfter(error, (isUnknown) =>
    isUnknown ? `it is not known whether ${batch} was loaded` : `${batch} was not loaded`,
  )
}

function findCode(error: unknown): string | null {
  return error instanceof CodedError ? String(error.code) : null
}

/** Whether `error` concerns one attachment. ITEM_NOT_FOUND: another client has deleted the item. */
function isAttachmentError(error: unknown): error is CodedError<string> {
  const code = findCode(error) ?? ''
  return code.startsWith('ATTACHMENT_') || code === 'ITEM_NOT_FOUND'
}

/** Returns a change whose id the ledger checks, even if it was generated: an earlier run may have created the item. */
function withCheckedId(change: PlannedChange): PlannedChange {
  const { operation } = change
  if (operation.kind !== 'create_item') return change
  return { ...change, operation: { ...operation, assigned: false } }
}

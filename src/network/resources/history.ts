import type { Json, JsonObject } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import { type HistoryRange, StoreError, unpackHeight } from '../../ledger/core.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import {
  parseStored,
  type RecordedTransaction,
  type ResourceDatabase,
  type ResourceRevision,
} from './database.ts'
import type { Guard } from './guard.ts'
import { resourceMissing } from './instances.ts'
import { historianTarget } from './transaction.ts'

/** A revision of a resource, with its transaction and the participant of the transaction. */
export interface ReadableRevision extends Omit<ResourceRevision, 'text'> {
  /** Relationships; null if the caller may not read the historian record of the transaction. */
  readonly transaction: Json
  readonly participant: Json
}

/** Number of revisions that are read from the store at once. */
const REVISIONS_PER_PAGE = 100
/** Maximum milliseconds for the reading of a history. */
const HISTORY_MS_MAX = 20_000

/**
 * Returns at most `limit` revisions of a resource that the caller may read. The access rules decide about each revision
 * by its own content. A resource that does not exist has a history only for a caller who may read it with
 * any content, so that nobody can tell a deleted resource from one that he may not read.
 * Errors: RESOURCE_NOT_FOUND; StoreError (SEARCH_TOO_LARGE).
 */
export async function resourceHistory(
  guard: Guard,
  database: ResourceDatabase,
  type: TypeDeclaration,
  id: string,
  range: HistoryRange,
): Promise<ReadableRevision[]> {
  const requireTime = timeLimit()
  const target = { type: type.qualifiedName, id }
  const first = await findFirst(guard, database, target)
  if (first === null) throw resourceMissing(type, id)
  const found: ResourceRevision[] = []
  for await (const page of readablePages(guard, database, target, first, range)) {
    found.push(...page.splice(0, range.limit - found.length))
    if (found.length === range.limit) break
    await requireTime()
  }
  const transactions = new Map<number, string>()
  let [read, recorded]: [number, readonly RecordedTransaction[]] = [-1, []]
  for (const { position } of found) {
    const height = unpackHeight(position)
    if (read !== height) {
      read = height
      recorded = await database.transactions(height)
      await requireTime()
    }
    // A block records a transaction, its historian record, and then its changes.
    const own = recorded.findLast((each) => each.position < position)
    const transaction = type.kind === 'transaction' ? id : own?.id
    if (transaction !== undefined) transactions.set(position, transaction)
  }
  const records = await readRecords(guard, [...new Set(transactions.values())])
  return found.map(({ position, timestamp, kind }) => {
    const record = records.get(transactions.get(position) ?? '')
    const { transactionInvoked = null, participantInvoking = null } = record ?? {}
    return {
      position,
      timestamp,
      kind,
      transaction: transactionInvoked,
      participant: participantInvoking,
    }
  })
}

/** Returns the position of the first revision that the caller may know, or null if the resource is missing for the caller. */
async function findFirst(
  guard: Guard,
  database: ResourceDatabase,
  target: Target,
): Promise<number | null> {
  if (guard.readsAlways(target) === true) {
    const [oldest] = await database.revisions(target, { newestFirst: false, limit: 1 })
    return oldest?.position ?? null
  }
  return (await guard.read(target)) === null ? null : database.created(target)
}

/** Yields the revisions from position `first` on that the caller may read, page by page. */
async function* readablePages(
  guard: Guard,
  database: ResourceDatabase,
  target: Target,
  first: number,
  { newestFirst, after }: Pick<HistoryRange, 'newestFirst' | 'after'>,
): AsyncGenerator<ResourceRevision[]> {
  let from = newestFirst ? after : Math.max(after ?? -1, first - 1)
  for (;;) {
    const start = from === null ? {} : { after: from }
    const page = await database.revisions(target, {
      newestFirst,
      limit: REVISIONS_PER_PAGE,
      ...start,
    })
    from = page.at(-1)?.position ?? from
    const own = page.splice(0).filter(({ position }) => position >= first)
    if (own.length === 0) return
    const allowed = await guard.readsVersions(
      target,
      own.map(({ text }) => text),
    )
    yield own.filter((_revision, at) => allowed[at])
  }
}

/** Reads the historian records of transactions that the caller may read, by the ids of the transactions. */
async function readRecords(guard: Guard, ids: readonly string[]): Promise<Map<string, JsonObject>> {
  const records = new Map<string, JsonObject>()
  const left = [...ids]
  const targets = ids.map((id) => historianTarget({ type: '', id }))
  for await (const batch of guard.readAll(targets)) {
    for (const stored of batch.splice(0)) {
      const id = left.shift() ?? ''
      if (stored !== null) records.set(id, parseStored(stored.text))
    }
  }
  return records
}

/** Returns a function that lets the event loop serve other requests. Errors: SEARCH_TOO_LARGE after HISTORY_MS_MAX. */
function timeLimit(): () => Promise<void> {
  const untilMs = performance.now() + HISTORY_MS_MAX
  return async () => {
    await turn()
    if (performance.now() < untilMs) return
    const message = `reading the history took more than ${HISTORY_MS_MAX / 1_000} s: give a smaller limit`
    throw new StoreError('SEARCH_TOO_LARGE', message)
  }
}

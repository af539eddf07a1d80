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

/** A revision of a resource without its text, which may have 10 MB. */
type Revision = Omit<ResourceRevision, 'text'>

/** A revision of a resource, with its transaction and the participant of the transaction. */
export interface ReadableRevision extends Revision {
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
  await requireTime()
  const target = { type: type.qualifiedName, id }
  const first = await findFirst(guard, database, target)
  if (first === null) throw resourceMissing(type, id)
  await requireTime()
  const found: Revision[] = []
  for await (const page of readablePages(guard, database, target, first, range)) {
    found.push(...page.slice(0, range.limit - found.length))
    await requireTime()
    if (found.length === range.limit) break
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
  const records = await readRecords(guard, [...new Set(transactions.values())], requireTime)
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
  return (await guard.read(target))?.created ?? null
}

/** Yields the revisions from position `first` on that the caller may read, page by page. */
async function* readablePages(
  guard: Guard,
  database: ResourceDatabase,
  target: Target,
  first: number,
  { newestFirst, after }: Pick<HistoryRange, 'newestFirst' | 'after'>,
): AsyncGenerator<Revision[]> {
  let from = newestFirst ? after : Math.max(after ?? -1, first - 1)
  let isEnd = false
  const read = async () => {
    const start = from === null ? {} : { after: from }
    const options = { newestFirst, limit: REVISIONS_PER_PAGE, ...start }
    const page = await database.revisions(target, options)
    from = page.at(-1)?.position ?? from
    const own = page.filter(({ position }) => position >= first)
    isEnd = own.length === 0
    return own.map(({ text, ...version }) => ({ text, version }))
  }
  while (!isEnd) yield await guard.readVersions(target, read)
}

/** Reads the members of historian records that the caller may read, by the ids of the transactions. */
async function readRecords(
  guard: Guard,
  ids: readonly string[],
  requireTime: () => Promise<void>,
): Promise<Map<string, JsonObject>> {
  const records = new Map<string, JsonObject>()
  const left = [...ids]
  const targets = ids.map((id) => historianTarget({ type: '', id }))
  for await (const batch of guard.readAll(targets)) {
    for (const stored of batch.splice(0)) {
      const id = left.shift() ?? ''
      if (stored === null) continue
      // Without the events, which may have 10 MB.
      const { transactionInvoked = null, participantInvoking = null } = parseStored(stored.text)
      records.set(id, { transactionInvoked, participantInvoking })
    }
    await requireTime()
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

import { turn } from '../../base/turn.ts'
import { positionText } from '../../chain/index.ts'
import { matches, type Where } from '../../filter/index.ts'
import { erasedItemText, type ItemLife, type StoreReader, storedJson } from '../../storage/index.ts'
import { LedgerError, mayBeRecorded, ownedByNetwork } from '../errors.ts'
import { requireDatabase } from '../read/pages.ts'
import type { AttachmentService } from './attachments.ts'
import { planErasure, RecentBlocks } from './erasure.ts'
import { networkItemId, requireDatabaseName } from './names.ts'
import type { RequestConditions } from './request-conditions.ts'
import type { Erased, FormerRange, Operation } from './unit-of-work.ts'
import type { LedgerWriter } from './writer.ts'

/** Lives that are read and erased at once. Other changes wait for the erasures of one page. */
const LIVES_PER_PAGE = 200
/** Items after which a request ends; also the maximum number of ids. */
export const ERASED_ITEMS_PER_REQUEST = 1_000
/** Lives after which a request ends, because most of them may have nothing to erase. */
const LIVES_PER_REQUEST = 20_000

/** Selects items: those with `ids`, or those that match. */
export interface ErasureQuery {
  readonly db: string
  readonly ids: readonly string[] | null
  /** Tested on the current item, or on the last state of a deleted item; null for all. */
  readonly where: Where | null
  /** Whether only deleted items are selected, also those of deleted databases. */
  readonly isDeletedOnly: boolean
  /** Whether to count only. */
  readonly isDryRun: boolean
  /** Packed position after which to continue; -1 for the beginning. */
  readonly after: number
}

export interface ErasureProgress {
  /** Number of items of which something was erased. An item that was deleted and created again may count twice. */
  readonly items: number
  /** Number of erased entries. */
  readonly revisions: number
  /** Cursor of the next request, or null at the end. */
  readonly cursor: string | null
}

interface ErasureDeps {
  readonly store: StoreReader
  readonly writer: LedgerWriter
  readonly attachments: AttachmentService
  /** Called after erasures are durable. */
  readonly onErased: () => void
}

type Erasure = Extract<Operation, { kind: 'erase_item' }> & { readonly range: FormerRange }

interface SelectedPage {
  readonly erasures: readonly Erasure[]
  readonly lives: number
  readonly cursor: string | null
}

/**
 * Erases, or counts, the former revisions of the selected items and of their attachments: of a deleted item all, of a
 * current item all but the current one. Ends after a bounded number of items. Each item is erased by an entry of its
 * own, or by several if it has many or long revisions, so a repeated request continues an interrupted one.
 * Errors: as for a single erasure, but not NOTHING_TO_ERASE. The items before the error may be erased.
 */
export async function eraseItems(
  deps: ErasureDeps,
  query: ErasureQuery,
  conditions: RequestConditions,
): Promise<ErasureProgress> {
  const { store } = deps
  requireDatabaseName(query.db)
  if ((await store.item(query.db, networkItemId(query.db))) !== null) throw ownedByNetwork(query.db)
  const counted = new CountedErasures(store)
  let [items, revisions, lives] = [0, 0, 0]
  for await (const page of selectedPages(store, query)) {
    const { erasures } = page
    const erased = await (query.isDryRun
      ? counted.count(erasures)
      : recordAll(deps, erasures, conditions))
    items += erased.filter((count) => count > 0).length
    revisions += erased.reduce((sum, count) => sum + count, 0)
    lives += page.lives
    if (items >= ERASED_ITEMS_PER_REQUEST || lives >= LIVES_PER_REQUEST) {
      return { items, revisions, cursor: page.cursor }
    }
    await turn()
  }
  return { items, revisions, cursor: null }
}

/** Yields the erasures of the selected items. Errors: DATABASE_NOT_FOUND for a name that was never used. */
async function* selectedPages(
  store: StoreReader,
  { db, ids, where, isDeletedOnly, after }: ErasureQuery,
): AsyncGenerator<SelectedPage> {
  const current = await store.database(db)
  const former = (await store.deletedDatabases()).filter(({ name }) => name === db)
  if (current === null && former.length === 0) await requireDatabase(store, db)
  if (ids !== null) {
    const all = { database: null, from: 0, to: Number.MAX_SAFE_INTEGER }
    const erasures = [...new Set(ids)].map((id) => toErasure(db, id, all))
    yield { erasures, lives: 0, cursor: null }
    return
  }
  for (const { created: database } of current === null ? former : [...former, current]) {
    let last = after
    for (;;) {
      const lives = await store.lives(database, last, LIVES_PER_PAGE)
      last = lives.at(-1)?.created ?? -1
      if (last === -1) break
      const isSelected = ({ deleted, hasFormerContent }: ItemLife) =>
        hasFormerContent && (deleted !== null || !isDeletedOnly)
      const matching = await matchingLives(store, lives.filter(isSelected), where)
      const erasures = matching.map(({ id, created: from, deleted }) =>
        toErasure(db, id, { database, from, to: deleted ?? Number.MAX_SAFE_INTEGER }),
      )
      yield { erasures, lives: lives.length, cursor: positionText(last) }
    }
  }
}

function toErasure(db: string, of: string, range: FormerRange): Erasure {
  return { kind: 'erase_item', db, of, positions: null, range }
}

/** Returns the lives whose last state matches. If the last state is erased, it has only its `id`. */
async function matchingLives(
  store: StoreReader,
  lives: readonly ItemLife[],
  where: Where | null,
): Promise<readonly ItemLife[]> {
  if (where === null) return lives
  const left = new Map(lives.map(({ id, revision }) => [revision, id]))
  const matching = new Set<number>()
  while (left.size > 0) {
    const wanted = Array.from(left, ([position, id]) => ({ id, position }))
    for (const { position, text } of await store.revisionsAt(wanted)) {
      // Parsed one by one and not kept, because the texts of a page of lives can have 2 GB.
      await turn()
      const item = storedJson(text ?? erasedItemText(left.get(position) ?? ''))
      if (matches(where, item)) matching.add(position)
      left.delete(position)
    }
  }
  return lives.filter(({ revision }) => matching.has(revision))
}

/** Counts the revisions that erasures would erase, one after the other. */
class CountedErasures {
  readonly #store: StoreReader
  readonly #erased = new Set<number>()

  constructor(store: StoreReader) {
    this.#store = store
  }

  async count(erasures: readonly Erasure[]): Promise<number[]> {
    const counts: number[] = []
    const recent = new RecentBlocks(this.#store, turn)
    for (const erasure of erasures) {
      const one = async (next: Erasure) => {
        await turn()
        const { positions, last } = await planErasure(this.#store, next, this.#erased, recent)
        for (const position of positions) this.#erased.add(position)
        return { erased: positions.length, freed: [], last }
      }
      counts.push((await untilErased(erasure, one)).erased)
    }
    return counts
  }
}

/** Records all `erasures`, and returns how many entries each has erased. */
async function recordAll(
  { writer, attachments, onErased }: ErasureDeps,
  erasures: readonly Erasure[],
  conditions: RequestConditions,
): Promise<number[]> {
  if (erasures.length === 0) return []
  const one = async (erasure: Erasure) => {
    const recorded = await writer.record([erasure], { ...conditions, idempotency: null })
    const { erased = 0, freed = [], last = null } = recorded
    return { erased, freed, last }
  }
  const { counts, failure } = await attachments.erasing(async () => {
    const outcomes = await Promise.allSettled(erasures.map((erasure) => untilErased(erasure, one)))
    onErased()
    const all = outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : null))
    const failed = outcomes.find(({ status }) => status === 'rejected')
    const failure = failed?.status === 'rejected' ? failed.reason : null
    if (mayBeRecorded(failure)) throw failure
    const freed = all.flatMap((erased) => erased?.freed ?? [])
    return { result: { counts: all.map((erased) => erased?.erased ?? 0), failure }, freed }
  })
  // The blobs of the erasures that succeeded have been removed.
  if (failure !== null) throw failure
  return counts
}

/**
 * Repeats `erase` until the item has no more former revisions in the range. Each repetition continues after the last
 * one, because a search from the first of a million revisions would take as long as all the repetitions before.
 */
async function untilErased(
  erasure: Erasure,
  erase: (next: Erasure) => Promise<Erased>,
): Promise<Pick<Erased, 'erased' | 'freed'>> {
  let { range } = erasure
  let erased = 0
  const freed: string[] = []
  for (;;) {
    const part = await erase({ ...erasure, range }).catch((error: unknown) => {
      if (error instanceof LedgerError && error.code === 'NOTHING_TO_ERASE') return null
      throw error
    })
    erased += part?.erased ?? 0
    freed.push(...(part?.freed ?? []))
    if (part === null || part.last === null) return { erased, freed }
    // The attachments of an earlier item are before the range.
    range = { ...range, from: Math.max(range.from, part.last + 1) }
  }
}

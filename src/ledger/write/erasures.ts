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
/** Duration after which a request starts no further erasure, because an item may have millions of revisions. */
const REQUEST_MS_MAX = 10_000

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
  /** Packed position, or index of an id, after which to continue; -1 for the beginning. */
  readonly after: number
  /** Packed position from which to continue in the first item. */
  readonly from?: number
}

export interface ErasureProgress {
  /**
   * Number of items whose erasure has ended, if something was erased. An item that was deleted and created again may count
   * twice.
   */
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

interface SelectedItem {
  readonly erasure: Erasure
  /** `ErasureQuery.after` of a request that starts with this item. */
  readonly after: number
}

interface ErasedItem {
  readonly erased: number
  /** Packed position from which the item has more to erase, because time was up; null if it was erased. */
  readonly rest: number | null
}

interface SelectedPage {
  readonly selected: readonly SelectedItem[]
  readonly lives: number
  readonly cursor: string | null
}

/**
 * Erases, or counts, the former revisions of the selected items and of their attachments: of a deleted item all, of a
 * current item all but the current one. Ends after a bounded number of items or a bounded time. Each item is erased by an
 * entry of its own, or by several if it has many or long revisions, so a repeated request continues an interrupted one.
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
  const startedMs = performance.now()
  const isLate = () => performance.now() - startedMs >= REQUEST_MS_MAX
  let [items, revisions, lives] = [0, 0, 0]
  for await (const page of selectedPages(store, query)) {
    const erasures = page.selected.map(({ erasure }) => erasure)
    const outcomes = await (query.isDryRun
      ? counted.count(erasures, isLate)
      : recordAll(deps, erasures, { conditions, isLate }))
    for (const { erased, rest } of outcomes) {
      if (rest === null && erased > 0) items += 1
      revisions += erased
    }
    for (const [at, { after }] of page.selected.entries()) {
      const rest = outcomes[at]?.rest ?? null
      if (rest === null) continue
      return { items, revisions, cursor: `${positionText(after)}-${positionText(rest)}` }
    }
    lives += page.lives
    if (items >= ERASED_ITEMS_PER_REQUEST || lives >= LIVES_PER_REQUEST || isLate()) {
      return { items, revisions, cursor: page.cursor }
    }
    await turn()
  }
  return { items, revisions, cursor: null }
}

/** Yields the erasures of the selected items. Errors: DATABASE_NOT_FOUND for a name that was never used; POSITION_INVALID. */
async function* selectedPages(
  store: StoreReader,
  { db, ids, where, isDeletedOnly, after, from = 0 }: ErasureQuery,
): AsyncGenerator<SelectedPage> {
  const current = await store.database(db)
  const former = (await store.deletedDatabases()).filter(({ name }) => name === db)
  if (current === null && former.length === 0) await requireDatabase(store, db)
  const select = (of: string, own: number, range: FormerRange): SelectedItem => {
    const first = own === after ? Math.max(range.from, from) : range.from
    const rest = { ...range, from: first }
    return { erasure: { kind: 'erase_item', db, of, positions: null, range: rest }, after: own }
  }
  if (ids !== null) {
    const all = { database: null, from: 0, to: Number.MAX_SAFE_INTEGER }
    const selected = [...new Set(ids)].map((id, at) => select(id, at, all))
    const rest = selected.slice(Math.max(0, after))
    if (rest.length === 0) {
      throw new LedgerError('POSITION_INVALID', 'the cursor is not one of a request with these ids')
    }
    yield { selected: rest, lives: 0, cursor: null }
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
      const selected = matching.map(({ id, created, deleted }) => {
        const to = deleted ?? Number.MAX_SAFE_INTEGER
        return select(id, created - 1, { database, from: created, to })
      })
      yield { selected, lives: lives.length, cursor: positionText(last) }
    }
  }
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

  /** Counts items as a whole, at least one: nothing would tell the next request what was counted of an item. */
  async count(erasures: readonly Erasure[], isLate: () => boolean): Promise<ErasedItem[]> {
    const outcomes: ErasedItem[] = []
    const recent = new RecentBlocks(this.#store, turn)
    for (const erasure of erasures) {
      if (outcomes.length > 0 && isLate()) {
        outcomes.push({ erased: 0, rest: erasure.range.from })
        break
      }
      const one = async (next: Erasure) => {
        await turn()
        const { positions, last } = await planErasure(this.#store, next, this.#erased, recent)
        for (const position of positions) this.#erased.add(position)
        return { erased: positions.length, freed: [], last }
      }
      outcomes.push(await untilErased(erasure, one, () => false))
    }
    return outcomes
  }
}

/** Records all `erasures`, and returns what each has erased. */
async function recordAll(
  { writer, attachments, onErased }: ErasureDeps,
  erasures: readonly Erasure[],
  { conditions, isLate }: { conditions: RequestConditions; isLate: () => boolean },
): Promise<readonly ErasedItem[]> {
  if (erasures.length === 0) return []
  const one = async (erasure: Erasure) => {
    const recorded = await writer.record([erasure], { ...conditions, idempotency: null })
    const { erased = 0, freed = [], last = null } = recorded
    return { erased, freed, last }
  }
  const { all, failure } = await attachments.erasing(async () => {
    const outcomes = await Promise.allSettled(
      erasures.map((erasure) => untilErased(erasure, one, isLate)),
    )
    onErased()
    const all = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? outcome.value : []))
    const failed = outcomes.find(({ status }) => status === 'rejected')
    const failure = failed?.status === 'rejected' ? failed.reason : null
    if (mayBeRecorded(failure)) throw failure
    return { result: { all, failure }, freed: all.flatMap(({ freed }) => freed) }
  })
  // The blobs of the erasures that succeeded have been removed.
  if (failure !== null) throw failure
  return all
}

/**
 * Repeats `erase` until the item has no more former revisions in the range, or `isLate`. Each repetition continues after the last
 * one, because a search from the first of a million revisions would take as long as all the repetitions before.
 */
async function untilErased(
  erasure: Erasure,
  erase: (next: Erasure) => Promise<Erased>,
  isLate: () => boolean,
): Promise<ErasedItem & Pick<Erased, 'freed'>> {
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
    if (part === null || part.last === null) return { erased, freed, rest: null }
    // The attachments of an earlier item are before the range.
    range = { ...range, from: Math.max(range.from, part.last + 1) }
    if (isLate()) return { erased, freed, rest: range.from }
  }
}

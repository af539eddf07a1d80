import {
  type Attachment,
  type Block,
  decodeEntry,
  ENTRIES_MAX,
  positionText,
  unpackPosition,
} from '../../chain/index.ts'
import {
  type AttachmentRow,
  erasedEntryText,
  type StoredItem,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { requireDatabase } from '../read/pages.ts'
import type { Erased, FormerRange, Operation } from './unit-of-work.ts'

/** Maximum revisions and attachments that one erasure of a range takes. Deletions of attachments come on top. */
export const REVISIONS_PER_ERASURE = 1_000
/** Characters of the blocks that one erasure of a range reads. The rest is left to the next, so that other changes do not wait. */
const READ_LENGTH_MAX = 4_194_304
/** The same for an erasure without a range, which is refused if it needs more. One block may always be read. */
const REQUEST_LENGTH_MAX = 33_554_432
/** Maximum characters of the cached blocks. */
const RECENT_LENGTH_MAX = 16_777_216

/** Reads blocks, and keeps the last ones, because the former revisions of many items are in the same block. */
export class RecentBlocks {
  readonly #store: StoreReader
  readonly #pause: () => Promise<void>
  readonly #blocks = new Map<number, Block>()
  #keptLength = 0
  /** Characters of the blocks read so far. */
  length = 0

  /** `pause` is awaited before each block is read. */
  constructor(store: StoreReader, pause: () => Promise<void> = async () => {}) {
    this.#store = store
    this.#pause = pause
  }

  async read(height: number): Promise<Block | undefined> {
    const kept = this.#blocks.get(height)
    if (kept !== undefined) return kept
    await this.#pause()
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    if (block?.height !== height) return undefined
    const length = block.entries.reduce((sum, entry) => sum + entry.length, 0)
    this.length += length
    if (this.#keptLength + length > RECENT_LENGTH_MAX) {
      this.#blocks.clear()
      this.#keptLength = 0
    }
    this.#keptLength += length
    this.#blocks.set(height, block)
    return block
  }
}

export interface PlannedErasure extends Pick<Erased, 'freed' | 'last'> {
  /** Packed positions of the entries to erase, in ascending order. */
  readonly positions: readonly number[]
}

interface ErasedItem {
  /** Packed position of the entry that created the item's database, or null if the database was deleted. */
  readonly database: number | null
  /** Packed positions of the entries that created the databases of this name, the deleted ones too. */
  readonly databases: readonly number[]
  readonly db: string
  readonly id: string
  /** The current item, or null if the item was deleted. */
  readonly current: StoredItem | null
}

/**
 * Plans an erasure of the entries at `positions`, of the oldest ones in `range`, or of all former revisions of the item
 * and of its attachments, also those of the items with the same id in deleted databases of the same name. Leaves out
 * entries that are already erased, and entries in `erasedInBatch`, which an earlier erasure of the batch erases.
 * Includes the deletion of an erased attachment, because the deletion contains the same metadata, and the deletion of the
 * item after its last revision if the deletion has an author or a reason.
 *
 * The plan stays valid until the batch is written, because a former revision never becomes current again.
 * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, REVISION_NEEDED, NOTHING_TO_ERASE, UNIT_TOO_LARGE.
 */
export async function planErasure(
  store: StoreReader,
  { db, of, positions, range }: Extract<Operation, { kind: 'erase_item' }>,
  erasedInBatch: ReadonlySet<number>,
  recent: RecentBlocks,
): Promise<PlannedErasure> {
  const item = await readErasedItem(store, db, of)
  const requested = positions ?? (await formerPositions(store, item, range ?? null, erasedInBatch))
  const isErased = async (position: number) =>
    erasedInBatch.has(position) || (await store.eraser(position)) !== null
  let isAll = range === undefined || requested.length < REVISIONS_PER_ERASURE
  let last = -1
  const erasable = new Set<number>()
  const freed = new Set<string>()
  const lengthMax = recent.length + (range === undefined ? REQUEST_LENGTH_MAX : READ_LENGTH_MAX)
  // Iterates in ascending order, so that a replaced attachment is in `erasable` before the entry that replaced it is
  // checked.
  for (const position of [...new Set(requested)].sort((a, b) => a - b)) {
    if (recent.length > lengthMax && erasable.size > 0) {
      if (range === undefined) throw tooLong(of)
      isAll = false
      break
    }
    last = position
    const { height, index } = unpackPosition(position)
    const text = (await recent.read(height))?.entries[index]
    if (text === undefined || !hasErasable(text, db, of)) {
      throw new LedgerError(
        'POSITION_INVALID',
        `${positionText(position)} is not a revision of item ${of} of ${db} or of its attachments`,
      )
    }
    if (position === item.current?.revision) throw currentRevision(item, position)
    // Positions that were not requested were selected because they are not erased.
    if (positions !== null && (await isErased(position))) continue
    erasable.add(position)
    const attachment = findEntryAttachment(text)
    if (attachment === null) {
      const deletion = await findDeletion(store, item, position, range ?? null)
      if (deletion === null || erasedInBatch.has(deletion)) continue
      if (await isErasable(store, recent, item, deletion)) erasable.add(deletion)
      continue
    }
    const related = await relatedEntries(store.attachments, item, position, attachment)
    if (related.isCurrent) throw currentRevision(item, position)
    const { former, deletion } = related
    if (former !== null && !erasable.has(former) && !erasedInBatch.has(former)) {
      throw neededRevision(position, former)
    }
    if (deletion !== null) erasable.add(deletion)
    freed.add(attachment.sha256)
  }
  if (erasable.size > ENTRIES_MAX) throw tooManyAtOnce()
  if (erasable.size > 0) {
    const sorted = [...erasable].sort((a, b) => a - b)
    return { positions: sorted, freed: [...freed], last: isAll ? null : last }
  }
  throw new LedgerError('NOTHING_TO_ERASE', `item ${of} of ${db} has no former revision to erase`)
}

/** Reads the item and the databases of the name. Errors: DATABASE_NOT_FOUND. */
async function readErasedItem(store: StoreReader, db: string, id: string): Promise<ErasedItem> {
  const former = await store.formerDatabases(db)
  // A name that was never used is refused like in every other request.
  const database =
    former.length === 0 ? await requireDatabase(store, db) : (await store.database(db))?.created
  return {
    database: database ?? null,
    databases: database === undefined ? former : [...former, database],
    ...{ db, id },
    current: await store.item(db, id),
  }
}

/** Whether the entry concerns the item, and has something to erase: a deletion of the item has only author and reason. */
function hasErasable(text: string | undefined, db: string, id: string): boolean {
  if (text === undefined) return false
  const erased = erasedEntryText(text, db, id)
  return erased !== null && (erased !== text || !erased.includes('"method":"delete_item"'))
}

/** Whether the entry at `position` has something of the item to erase, and is not erased. */
async function isErasable(
  store: StoreReader,
  recent: RecentBlocks,
  { db, id }: ErasedItem,
  position: number,
): Promise<boolean> {
  const { height, index } = unpackPosition(position)
  const text = (await recent.read(height))?.entries[index]
  return hasErasable(text, db, id) && (await store.eraser(position)) === null
}

/**
 * Returns the position of the entry that deleted the item after its revision at `position`, or null. In a range that ends
 * with the life of the item, this is the end, which may be the deletion of the database.
 */
async function findDeletion(
  store: StoreReader,
  { databases, id, current }: ErasedItem,
  position: number,
  range: FormerRange | null,
): Promise<number | null> {
  // The item has not been deleted since it was created last. Saves three reads for each of thousands of revisions.
  if (current !== null && position >= current.created) return null
  if (range !== null && range.to !== Number.MAX_SAFE_INTEGER) return range.to
  for (const database of databases) {
    const next = { newestFirst: false, after: position, limit: 1 }
    const [revision] = await store.revisions(database, id, next)
    if (revision?.kind === 'delete_item') return revision.position
  }
  return null
}

/** Returns the attachment of an entry, or null for an erased entry or an entry without an attachment. */
function findEntryAttachment(text: string): Attachment | null {
  const entry = decodeEntry(storedJson(text))
  if (entry === null || !('attachment' in entry)) return null
  return entry.attachment.sha256 === undefined ? null : entry.attachment
}

function currentRevision({ id }: ErasedItem, position: number): LedgerError {
  const at = positionText(position)
  const message = `${at} is the current revision of item ${id} or of its attachment: change or delete it first`
  return new LedgerError('REVISION_CURRENT', message)
}

function neededRevision(position: number, former: number): LedgerError {
  const [at, before] = [positionText(position), positionText(former)]
  const reason = `if only ${at} were erased, the attachment at ${before} would become current again`
  return new LedgerError('REVISION_NEEDED', `${reason}: erase ${before} too`)
}

/**
 * Returns the packed positions of all former revisions of the item and of its attachments, in all databases of the
 * name, or of the oldest ones in `range`. Leaves out deletions: a deletion of the item has no content, and a deletion of
 * an attachment is erased with the attachment. Errors: UNIT_TOO_LARGE.
 */
async function formerPositions(
  store: StoreReader,
  item: ErasedItem,
  range: FormerRange | null,
  erasedInBatch: ReadonlySet<number>,
): Promise<number[]> {
  const { databases, id, current } = item
  const limit = (range === null ? ENTRIES_MAX : REVISIONS_PER_ERASURE) + 1
  const { from, to } = range ?? { from: 0, to: Number.MAX_SAFE_INTEGER }
  const isLeft = (position: number) =>
    position !== current?.revision && !erasedInBatch.has(position)
  /** Returns the first `limit` positions that are left. */
  const oldestLeft = async (read: (next: number) => Promise<number[]>, first: number) => {
    const left: number[] = []
    for (let next = first; left.length < limit; ) {
      const page = await read(next)
      left.push(...page.filter(isLeft))
      if (page.length < limit) break
      next = (page.at(-1) ?? next) + 1
    }
    return left
  }
  const selected = range?.database ?? null
  const former: number[] = []
  for (const database of selected === null ? databases : [selected]) {
    const created = (database === item.database ? current?.created : null) ?? to
    const attached = async (next: number) => {
      const rows = { created, from: next, to, limit }
      const page = await store.attachments.formerOfItem(database, id, rows)
      return page.map(({ position }) => position)
    }
    const revised = (next: number) =>
      store.unerasedRevisions(database, id, { from: next, to, limit })
    // The oldest of both, because an erasure of a range continues after the last one. Attachments that are before it
    // belong to an earlier item, and must be erased first.
    former.push(...(await oldestLeft(attached, 0)), ...(await oldestLeft(revised, from)))
    if (former.length < limit) continue
    if (range === null) throw tooMany(id)
    return former.sort((a, b) => a - b).slice(0, REVISIONS_PER_ERASURE)
  }
  return former
}

function tooManyAtOnce(): LedgerError {
  const message = `one request may erase at most ${ENTRIES_MAX} revisions`
  return new LedgerError('UNIT_TOO_LARGE', message)
}

function tooMany(id: string): LedgerError {
  return new LedgerError(
    'UNIT_TOO_LARGE',
    `item ${id} has more than ${ENTRIES_MAX} former revisions: use POST /api/config/erasures, or give positions`,
  )
}

function tooLong(id: string): LedgerError {
  return new LedgerError(
    'UNIT_TOO_LARGE',
    `the revisions of item ${id} are in blocks of more than ${REQUEST_LENGTH_MAX} characters: use POST /api/config/erasures, or give fewer positions`,
  )
}

function isAttached({ current, database }: ErasedItem, row: AttachmentRow): boolean {
  if (row.database !== database || row.ended !== null) return false
  return current !== null && row.position > current.created
}

/**
 * Finds the entries related to the entry at `position`, which creates or deletes `attachment` and is not erased:
 * - `isCurrent`: whether `attachment` is the item's current attachment.
 * - `former`: position of the entry whose attachment this entry replaced or deleted, or null if that entry is erased or
 *   does not exist. `former` must be erased too, because a replay of the chain without this entry would make the
 *   attachment of `former` current again.
 * - `deletion`: position of the entry that deleted the attachment, or null.
 */
async function relatedEntries(
  rows: StoreReader['attachments'],
  item: ErasedItem,
  position: number,
  { sha256 }: Attachment,
): Promise<{ isCurrent: boolean; former: number | null; deletion: number | null }> {
  const row = await rows.at(position)
  if (row === null) {
    // Only creations have rows, so this entry is a deletion.
    return { isCurrent: false, former: await rows.endedBy(position, sha256), deletion: null }
  }
  const before = await rows.before(row, position)
  const { ended } = row
  return {
    isCurrent: isAttached(item, row),
    former: before?.ended === position ? before.position : null,
    // If there is a row at `ended`, another attachment replaced this attachment, so there was no deletion.
    deletion: ended !== null && (await rows.at(ended)) === null ? ended : null,
  }
}

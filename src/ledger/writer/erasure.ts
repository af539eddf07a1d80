import {
  type Attachment,
  type Block,
  ENTRIES_MAX,
  type Entry,
  entryOf,
  positionText,
  unpackPosition,
} from '../../chain/index.ts'
import {
  erasedEntryText,
  type StoredItem,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Operation } from '../unit-of-work.ts'

/** What an erasure comes to. */
export interface PlannedErasure {
  /** Packed, in ascending order. */
  readonly positions: readonly number[]
  /** The SHA-256 of each content that an entry among them named; others may name it too. */
  readonly freed: readonly string[]
}

/**
 * What an erasure comes to: the entries named, or all former revisions of the item and of what is
 * attached to it, without what is erased already or `taken` by another erasure of the batch. With an
 * attachment goes the entry that deleted it, because that says the same of it.
 *
 * What it decides on stays true until the batch is written: nothing makes a former revision current.
 * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, REVISION_NEEDED, NOTHING_TO_ERASE,
 * UNIT_TOO_LARGE.
 */
export async function plannedErasure(
  store: StoreReader,
  { db, of, positions }: Extract<Operation, { kind: 'erase_item' }>,
  taken: ReadonlySet<number>,
): Promise<PlannedErasure> {
  const database = await store.database(db)
  if (database === null) {
    throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
  }
  const item = { database: database.created, id: of, current: await store.item(db, of) }
  const named = positions ?? (await formerPositions(store, item))
  const erasable = new Set<number>()
  const freed = new Set<string>()
  let block: Block | undefined
  // In ascending order: what an attachment replaced is met before it.
  for (const position of [...new Set(named)].sort((a, b) => a - b)) {
    const { height, index } = unpackPosition(position)
    if (block?.height !== height) [block] = await store.blocks(store.serverId, height, 1)
    const text = block?.height === height ? block.entries[index] : undefined
    if (text === undefined || erasedEntryText(text, db, of) === null) {
      const where = `${positionText(position)} is no revision of item ${of} of ${db}`
      throw new LedgerError('POSITION_INVALID', `${where}, nor of what is attached to it`)
    }
    if (position === item.current?.revision) throw currentRevision(item, position)
    if (taken.has(position) || (await store.eraser(position)) !== null) continue
    erasable.add(position)
    const attachment = attachmentIn(text)
    if (attachment === null) continue
    const beside = await besideAttachment(store.attachments, item, position, attachment)
    if (beside.isCurrent) throw currentRevision(item, position)
    const { former, deletion } = beside
    if (former !== null && !erasable.has(former) && !taken.has(former)) {
      throw neededRevision(position, former)
    }
    if (deletion !== null) erasable.add(deletion)
    freed.add(attachment.sha256)
  }
  if (erasable.size > ENTRIES_MAX) {
    throw new LedgerError('UNIT_TOO_LARGE', `one request may erase ${ENTRIES_MAX} revisions`)
  }
  if (erasable.size > 0) {
    return { positions: [...erasable].sort((a, b) => a - b), freed: [...freed] }
  }
  throw new LedgerError('NOTHING_TO_ERASE', `item ${of} of ${db} has no such former revision`)
}

/** The attachment that the entry is about, when it is about one that is not erased. */
function attachmentIn(text: string) {
  const entry: Entry | null = entryOf(storedJson(text))
  if (entry === null || !('attachment' in entry)) return null
  return entry.attachment.sha256 === undefined ? null : entry.attachment
}

function currentRevision({ id }: ErasedItem, position: number): LedgerError {
  const at = positionText(position)
  const what = `${at} is what item ${id} or an attachment of it is now: change or delete it first`
  return new LedgerError('REVISION_CURRENT', what)
}

function neededRevision(position: number, former: number): LedgerError {
  const [at, before] = [positionText(position), positionText(former)]
  const what = `${at} is all that says of the attachment at ${before} that it is no longer current`
  return new LedgerError('REVISION_NEEDED', `${what}: erase ${before} too`)
}

/** An item of which something is to be erased. */
interface ErasedItem {
  /** The packed position that created its database. */
  readonly database: number
  readonly id: string
  /** As it is now; null when it was deleted. */
  readonly current: StoredItem | null
}

/** Revisions read at a time. */
const REVISIONS_PER_PAGE = 256

/**
 * The packed positions of all that the item was and is no longer, and of what was attached to it and is
 * no longer. Deletions of the item have no content; those of attachments go with what they deleted.
 * Errors: UNIT_TOO_LARGE.
 */
async function formerPositions(store: StoreReader, item: ErasedItem): Promise<number[]> {
  const former = await formerAttachments(store, item)
  const { database, id, current } = item
  for (let after = -1; ; ) {
    const page = await store.revisions(database, id, {
      newestFirst: false,
      after,
      limit: REVISIONS_PER_PAGE,
    })
    for (const { position, text } of page) {
      if (text !== null && position !== current?.revision) former.push(position)
    }
    if (former.length > ENTRIES_MAX) throw tooMany(id)
    after = page.at(-1)?.position ?? -1
    if (page.length === 0) return former
  }
}

async function formerAttachments(store: StoreReader, item: ErasedItem): Promise<number[]> {
  const rows = await store.attachments.ofItem(item.database, item.id, ENTRIES_MAX + 1)
  if (rows.length > ENTRIES_MAX) throw tooMany(item.id)
  return rows.filter((row) => !isAttached(item, row)).map(({ position }) => position)
}

/** Whether a row of the item's database is what the item holds now. */
function isAttached(
  { current }: ErasedItem,
  row: { readonly ended: number | null; readonly position: number },
): boolean {
  return current !== null && row.ended === null && row.position > current.created
}

function tooMany(id: string): LedgerError {
  return new LedgerError(
    'UNIT_TOO_LARGE',
    `item ${id} has more than ${ENTRIES_MAX} former revisions: name some of them`,
  )
}

/** What stands beside an entry about an attachment that is to be erased; positions are packed. */
interface BesideAttachment {
  /** Whether the item holds it now. */
  readonly isCurrent: boolean
  /**
   * What the entry replaced or deleted and is not erased yet, or null. It must be erased too: without
   * the entry nobody who replays the chain knows that it ended.
   */
  readonly former: number | null
  /** The entry that deleted the attachment, or null. It says the same of it, so it goes along. */
  readonly deletion: number | null
}

/** What stands beside the entry at `position`, which creates or deletes `attachment` and is not erased. */
async function besideAttachment(
  rows: StoreReader['attachments'],
  item: ErasedItem,
  position: number,
  { sha256 }: Attachment,
): Promise<BesideAttachment> {
  const row = await rows.at(position)
  if (row === null) {
    // Only creations have rows, so the entry is a deletion.
    return { isCurrent: false, former: await rows.endedBy(position, sha256), deletion: null }
  }
  const before = await rows.before(row, position)
  const { ended } = row
  return {
    isCurrent: row.database === item.database && isAttached(item, row),
    former: before?.ended === position ? before.position : null,
    // Where a creation ended it, that has a row.
    deletion: ended !== null && (await rows.at(ended)) === null ? ended : null,
  }
}

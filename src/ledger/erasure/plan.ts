import { type Block, ENTRIES_MAX, positionText, unpackPosition } from '../../chain/index.ts'
import { erasedEntryText, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Operation } from '../unit-of-work.ts'

/** Revisions read at a time. */
const REVISIONS_PER_PAGE = 256

/**
 * The packed positions that an erasure comes to, in ascending order: those named, or all former
 * revisions of the item, without what is erased already or `taken` by another erasure of the batch.
 *
 * What it decides on stays true until the batch is written: nothing makes a former revision current.
 * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, NOTHING_TO_ERASE, UNIT_TOO_LARGE.
 */
export async function erasablePositions(
  store: StoreReader,
  { db, of, positions }: Extract<Operation, { kind: 'erase_item' }>,
  taken: ReadonlySet<number>,
): Promise<number[]> {
  const database = await store.database(db)
  if (database === null) {
    throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
  }
  const current = (await store.item(db, of))?.revision ?? null
  const named = positions ?? (await formerRevisions(store, database.created, of, current))
  if (positions?.includes(current ?? -1) === true) {
    throw new LedgerError(
      'REVISION_CURRENT',
      `item ${of} of ${db} is as of ${positionText(current ?? 0)}: change or delete it first`,
    )
  }
  const erasable: number[] = []
  let block: Block | undefined
  for (const position of [...new Set(named)].sort((a, b) => a - b)) {
    const { height, index } = unpackPosition(position)
    if (block?.height !== height) [block] = await store.blocks(store.serverId, height, 1)
    const text = block?.height === height ? block.entries[index] : undefined
    if (text === undefined || erasedEntryText(text, db, of) === null) {
      throw new LedgerError(
        'POSITION_INVALID',
        `${positionText(position)} is no revision of item ${of} of ${db}`,
      )
    }
    if (!taken.has(position) && (await store.eraser(position)) === null) erasable.push(position)
  }
  if (erasable.length > 0) return erasable
  throw new LedgerError('NOTHING_TO_ERASE', `item ${of} of ${db} has no such former revision`)
}

/** Every revision but the current one; deletions have no content. */
async function formerRevisions(
  store: StoreReader,
  database: number,
  id: string,
  current: number | null,
): Promise<number[]> {
  const former: number[] = []
  for (let after = -1; ; ) {
    const page = await store.revisions(database, id, {
      newestFirst: false,
      after,
      limit: REVISIONS_PER_PAGE,
    })
    for (const { position, text } of page) {
      if (text !== null && position !== current) former.push(position)
    }
    if (former.length > ENTRIES_MAX) {
      throw new LedgerError(
        'UNIT_TOO_LARGE',
        `item ${id} has more than ${ENTRIES_MAX} former revisions: name some of them`,
      )
    }
    after = page.at(-1)?.position ?? -1
    if (page.length === 0) return former
  }
}

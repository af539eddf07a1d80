import { ENTRIES_MAX } from '../../chain/index.ts'
import type { StoredItem, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

/** An item of which something is to be erased. */
export interface ErasedItem {
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
export async function formerPositions(store: StoreReader, item: ErasedItem): Promise<number[]> {
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
export function isAttached(
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

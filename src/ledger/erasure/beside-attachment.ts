import type { Attachment } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { type ErasedItem, isAttached } from './former-positions.ts'

/** What stands beside an entry about an attachment that is to be erased; positions are packed. */
export interface BesideAttachment {
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
export async function besideAttachment(
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

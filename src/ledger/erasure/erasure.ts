import { ENTRIES_MAX, entryOf, parsePosition, unpackPosition } from '../../chain/index.ts'
import { type StoreReader, storedJson } from '../../storage/index.ts'
import type { AttachmentService } from '../attachments/service.ts'
import type { ChangeFeed } from '../changes/feed.ts'
import { LedgerError } from '../errors.ts'
import { checkDatabaseName, checkItemId } from '../names.ts'
import type { RequestConditions } from '../request-conditions.ts'
import { type LedgerWriter, positionOf } from '../writer/writer.ts'

/** What was erased, and where that is recorded. */
export interface Erased {
  /** Packed, of the entry `erase_item`. */
  readonly position: number
  /** `<height>.<index>` of each entry that was erased. */
  readonly positions: readonly string[]
}

/** What holds content beside the store. */
interface ErasedParts {
  readonly attachments: AttachmentService
  readonly feed: ChangeFeed
}

/**
 * Takes the content out of revisions that are no longer current.
 *
 * What a crash leaves, at each point:
 * - before the block is durable: nothing is erased, nobody was answered.
 * - after it: rows and entries are without the content; `uncompacted` says that the file is to be
 *   written anew, and the folder `incoming` that contents without a name are to be looked for. The next
 *   start does both.
 */
export class Erasure {
  readonly #store: StoreReader
  readonly #writer: LedgerWriter
  readonly #attachments: AttachmentService
  readonly #feed: ChangeFeed

  constructor(store: StoreReader, writer: LedgerWriter, parts: ErasedParts) {
    this.#store = store
    this.#writer = writer
    this.#attachments = parts.attachments
    this.#feed = parts.feed
  }

  /**
   * Erases what an item and its attachments were: the entries at `positions` (`<height>.<index>`), or
   * all that are no longer current when that is null. With `terms` it may have been done before.
   *
   * When it resolves, the contents that no entry names any more are gone too; what is left of texts in
   * free parts of the store's file goes soon after.
   * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, REVISION_NEEDED, NOTHING_TO_ERASE,
   * UNIT_TOO_LARGE, IDEMPOTENCY_KEY_REUSED; STORE_FAILED when a content cannot be removed.
   */
  async erase(
    db: string,
    id: string,
    positions: readonly string[] | null,
    terms?: RequestConditions,
  ): Promise<Erased> {
    checkDatabaseName(db)
    checkItemId(id)
    if (positions !== null && positions.length > ENTRIES_MAX) {
      throw new LedgerError('UNIT_TOO_LARGE', `one request may erase ${ENTRIES_MAX} revisions`)
    }
    const packed = positions?.map(packedPosition) ?? null
    const operation = { kind: 'erase_item', db, of: id, positions: packed } as const
    const position = await this.#attachments.erasing(async () => {
      const recorded = await this.#writer.record([operation], terms)
      if ('entries' in recorded) return { result: recorded.position, freed: [] }
      this.#feed.erased()
      return { result: positionOf(recorded), freed: recorded.freed ?? [] }
    })
    const { height, index } = unpackPosition(position)
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    const entry = entryOf(storedJson(block?.entries[index] ?? '{}'))
    return { position, positions: entry?.method === 'erase_item' ? entry.positions : [] }
  }
}

function packedPosition(text: string): number {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position is a height and an index, like 12.0')
}

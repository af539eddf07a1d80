import { ENTRIES_MAX, entryOf, parsePosition, unpackPosition } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { checkDatabaseName, checkItemId } from '../names.ts'
import type { Terms } from '../terms/terms.ts'
import { type LedgerWriter, positionOf } from '../writer/writer.ts'

/** What was erased, and where that is recorded. */
export interface Erased {
  /** Packed, of the entry `erase_item`. */
  readonly position: number
  /** `<height>.<index>` of each entry that was erased. */
  readonly positions: readonly string[]
}

/** Takes the content out of revisions that are no longer current. */
export class Erasure {
  readonly #store: StoreReader
  readonly #writer: LedgerWriter

  constructor(store: StoreReader, writer: LedgerWriter) {
    this.#store = store
    this.#writer = writer
  }

  /**
   * Erases the revisions of an item at `positions` (`<height>.<index>`), or all former ones when that
   * is null. With `terms` it may have been done before, and is answered as it was then.
   * Errors: IDEMPOTENCY_KEY_REUSED, DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, NOTHING_TO_ERASE, UNIT_TOO_LARGE.
   */
  async erase(
    db: string,
    id: string,
    positions: readonly string[] | null,
    terms: Terms | undefined,
  ): Promise<Erased> {
    checkDatabaseName(db)
    checkItemId(id)
    if (positions !== null && positions.length > ENTRIES_MAX) {
      throw new LedgerError('UNIT_TOO_LARGE', `one request may erase ${ENTRIES_MAX} revisions`)
    }
    const packed = positions?.map(packedPosition) ?? null
    const operation = { kind: 'erase_item', db, of: id, positions: packed } as const
    const position = positionOf(await this.#writer.record([operation], terms))
    const { height, index } = unpackPosition(position)
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    const entry = entryOf(JSON.parse(block?.entries[index] ?? '{}'))
    const erased = entry?.method === 'erase_item' ? entry.positions : []
    return { position, positions: erased }
  }
}

function packedPosition(text: string): number {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position is a height and an index, like 12.0')
}

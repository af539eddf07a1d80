import { ENTRIES_MAX, entryOf, packPosition, parsePosition } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { checkDatabaseName, checkItemId } from '../names.ts'
import type { LedgerWriter } from '../writer/writer.ts'

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
   * is null.
   * Errors: DATABASE_NOT_FOUND, POSITION_INVALID, REVISION_CURRENT, NOTHING_TO_ERASE, UNIT_TOO_LARGE.
   */
  async erase(db: string, id: string, positions: readonly string[] | null): Promise<Erased> {
    checkDatabaseName(db)
    checkItemId(id)
    if (positions !== null && positions.length > ENTRIES_MAX) {
      throw new LedgerError('UNIT_TOO_LARGE', `one request may erase ${ENTRIES_MAX} revisions`)
    }
    const packed = positions?.map(packedPosition) ?? null
    const recorded = await this.#writer.record([
      { kind: 'erase_item', db, of: id, positions: packed },
    ])
    // Without an idempotency key nothing was recorded before.
    if ('entries' in recorded) throw new TypeError('an erasure was answered before')
    const { height, index } = recorded
    const [block] = await this.#store.blocks(this.#store.serverId, height, 1)
    const entry = entryOf(JSON.parse(block?.entries[index] ?? '{}'))
    const erased = entry?.method === 'erase_item' ? entry.positions : []
    return { position: packPosition(height, index), positions: erased }
  }
}

function packedPosition(text: string): number {
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position is a height and an index, like 12.0')
}

import {
  type Block,
  type Entry,
  isErased,
  pickAuthorship,
  unpackHeight,
  unpackPosition,
} from '../../chain/index.ts'
import { type Effect, toEffect } from '../port/effect.ts'
import { parseEntry } from '../port/erasure.ts'
import { StoreError } from '../port/errors.ts'
import { PAGE_CHARACTERS, type StoredRevision } from '../port/store.ts'
import { type Dialect, type SqlReads, translated } from './dialect.ts'
import { type Row, readBinary, readBodyRow, readInteger } from './rows.ts'

/** Characters of the blocks that are kept. */
const KEPT_CHARACTERS_MAX = 8 * 1_048_576

/** Position of a revision, and the id of its item. */
interface RevisionPlace {
  readonly id: string
  readonly position: number
}

/**
 * Reads revisions from their blocks. Keeps the last blocks until the next erasure, because the former revisions of a list
 * are often in the same blocks, which take much longer to read than the revisions.
 */
export class SqlRevisions {
  readonly #reads: SqlReads
  readonly #sql
  readonly #kept = new Map<number, LoadedBlock>()
  #keptCharacters = 0
  #lastEraser: number | null = null

  constructor(reads: SqlReads, dialect: Dialect) {
    this.#reads = reads
    this.#sql = translated(dialect, {
      revised: dialect.page(
        `SELECT n.value, n.number, b.body, b.timestamps, b.blinds
          FROM ${dialect.elements('$1')} LEFT JOIN blocks AS b ON b.height = n.value`,
        'coalesce(octet_length(body), 0)',
        'number',
      ),
      lastEraser: 'SELECT eraser FROM erasures ORDER BY eraser DESC LIMIT 1',
    })
  }

  lastEraser(): Promise<number | null> {
    return this.#reads.first(this.#sql.lastEraser, [], (row) => readInteger(row, 'eraser'))
  }

  /**
   * Returns the revisions at `places`. They are in the order of the first places of their blocks; the page ends with
   * the block that reaches PAGE_CHARACTERS. Errors: STORE_DAMAGED.
   */
  async at(places: readonly RevisionPlace[]): Promise<StoredRevision[]> {
    if (places.length === 0) return []
    const byHeight = Map.groupBy(places, ({ position }) => unpackHeight(position))
    const blocks = await this.#blocks([...byHeight.keys()])
    const revisions: StoredRevision[] = []
    let characters = 0
    for (const [height, own] of byHeight) {
      const block = blocks.get(height)
      if (block === undefined || characters >= PAGE_CHARACTERS) break
      for (const { id, position } of own) revisions.push(readRevision(id, position, block))
      characters += block.characters
    }
    return revisions
  }

  /** Returns at least the first of the blocks. */
  async #blocks(heights: readonly number[]): Promise<Map<number, LoadedBlock>> {
    const eraser = await this.lastEraser()
    if (eraser !== this.#lastEraser) this.#kept.clear()
    if (this.#kept.size === 0) this.#keptCharacters = 0
    this.#lastEraser = eraser
    const found = new Map(heights.map((height) => [height, this.#kept.get(height)] as const))
    const missing = JSON.stringify(heights.filter((height) => found.get(height) === undefined))
    const read =
      missing === '[]'
        ? []
        : await this.#reads.page(
            ...([this.#sql.revised, [missing], readLoadedBlock] as const),
            ({ characters }) => characters,
          )
    const blocks = new Map<number, LoadedBlock>()
    for (const [height, block] of found) if (block !== undefined) blocks.set(height, block)
    for (const block of read) {
      blocks.set(block.height, block)
      if (eraser === this.#lastEraser) this.#keep(block)
    }
    return blocks
  }

  #keep(block: LoadedBlock): void {
    const { height, characters } = block
    if (characters > KEPT_CHARACTERS_MAX || this.#kept.has(height)) return
    this.#kept.set(height, block)
    this.#keptCharacters += characters
    for (const [oldest, { characters: freed }] of this.#kept) {
      if (this.#keptCharacters <= KEPT_CHARACTERS_MAX) return
      this.#kept.delete(oldest)
      this.#keptCharacters -= freed
    }
  }
}

function readLoadedBlock([value, , body, timestamps, blinds]: Row): LoadedBlock {
  const height = readInteger([value], 'height')
  if (body === null) throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
  const { entries, ...others } = readBodyRow([body, timestamps])
  const characters = entries.reduce((sum, { length }) => sum + length, 0)
  return { ...others, height, entries, characters, blinds: readBinary([blinds], 'blinds') }
}

/** The columns of a block from which revisions are read, and the length of the entries. */
interface LoadedBlock extends Pick<Block, 'height' | 'entries' | 'timestamps' | 'blinds'> {
  readonly characters: number
}

/** Returns the revision of item `id` that the entry at `position` in `block` created. Errors: STORE_DAMAGED. */
function readRevision(id: string, position: number, block: LoadedBlock): StoredRevision {
  const { index } = unpackPosition(position)
  const stored = block.entries[index]
  const timestamp = block.timestamps[index]
  if (stored === undefined || timestamp === undefined) throw revisionMissing(id, position)
  const entry = requireEntry(stored)
  const effect = toEffect(entry, position)
  if (!('id' in effect) || 'attachment' in effect || effect.id !== id)
    throw revisionMissing(id, position)
  const text = effect.kind === 'delete_item' || isErased(block, index) ? null : effect.text
  return { position, timestamp, kind: effect.kind, text, ...pickAuthorship(entry) }
}

/** Returns the effect of a stored entry. Errors: STORE_DAMAGED. */
export function effectAt(text: string, position: number): Effect {
  return toEffect(requireEntry(text), position)
}

function requireEntry(text: string): Entry {
  const entry = parseEntry(text)
  if (entry !== null) return entry
  throw new StoreError('STORE_DAMAGED', 'a stored block contains text that is not an entry')
}

/** Returns the error for a position in the history of item `id` at which the chain has no revision of this item. */
export function revisionMissing(id: string, position: number): StoreError {
  return new StoreError(
    'STORE_DAMAGED',
    `there is no revision of ${id} at packed position ${position}`,
  )
}

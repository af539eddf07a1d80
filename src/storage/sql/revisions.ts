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
import type { StoredRevision } from '../port/store.ts'
import type { SqlReads } from './dialect.ts'
import { type Row, readBinary, readBodyRow, readInteger } from './rows.ts'

/**
 * Reads the revisions of items at some positions, with the statement `revised`. The blocks of the page are read in the
 * order of their first positions; the page ends with the block that reaches PAGE_CHARACTERS. Errors: STORE_DAMAGED.
 */
export async function readRevisions(
  reads: SqlReads,
  revised: string,
  wanted: readonly { readonly id: string; readonly position: number }[],
): Promise<StoredRevision[]> {
  if (wanted.length === 0) return []
  const byHeight = Map.groupBy(wanted, ({ position }) => unpackHeight(position))
  const inBlock = ([value, , body, timestamps, blinds]: Row) => {
    const height = readInteger([value], 'height')
    const own = byHeight.get(height) ?? []
    if (body === null) throw revisionMissing(own[0]?.id ?? '', own[0]?.position ?? 0)
    const block = {
      height,
      ...readBodyRow([body, timestamps]),
      blinds: readBinary([blinds], 'blinds'),
    }
    const characters = block.entries.reduce((sum, { length }) => sum + length, 0)
    const revisions = own.map(({ id, position }) =>
      readRevision(id, position, block, unpackPosition(position).index),
    )
    return { characters, revisions }
  }
  const heights = [JSON.stringify([...byHeight.keys()])]
  const pages = await reads.page(revised, heights, inBlock, ({ characters }) => characters)
  return pages.flatMap(({ revisions }) => revisions)
}

/** The columns of a block from which revisions are read. */
type LoadedBlock = Pick<Block, 'height' | 'entries' | 'timestamps' | 'blinds'>

/** Returns the revision of item `id` that the entry `index` of `block` created. Errors: STORE_DAMAGED. */
function readRevision(
  id: string,
  position: number,
  block: LoadedBlock,
  index: number,
): StoredRevision {
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

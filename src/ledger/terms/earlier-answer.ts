import { entryOf, unpackPosition } from '../../chain/index.ts'
import { StoreError, type StoreReader, storedJson } from '../../storage/index.ts'
import type { Earlier } from './kept-answers.ts'

/**
 * What was answered when `earlier` was recorded: its block, and the id that each entry names (null for
 * a database). The chain holds it, so an answer that is given again is made of what was given first.
 */
export async function earlierAnswer(
  store: StoreReader,
  { position, entries }: Earlier,
): Promise<{ position: number; height: number; blockId: string; ids: (string | null)[] }> {
  const { height, index } = unpackPosition(position)
  const [block] = await store.blocks(store.serverId, height, 1)
  if (block?.height !== height) {
    throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
  }
  const ids = block.entries.slice(index, index + entries).map(idIn)
  return { position, height, blockId: block.id, ids }
}

function idIn(text: string): string | null {
  const entry = entryOf(storedJson(text))
  if (entry === null) throw new StoreError('STORE_DAMAGED', 'a block holds what is not an entry')
  if ('item' in entry) return entry.item.id
  return 'id' in entry ? entry.id : null
}

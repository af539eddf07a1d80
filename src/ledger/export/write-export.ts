import {
  erasedIn,
  type Head,
  headOf,
  packPosition,
  provenBlockJson,
  unpackPosition,
  verifyBlock,
} from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { existingNodeKey } from '../node-key.ts'
import { ExportError } from './errors.ts'
import { EXPORT_VERSION, type ExportEnd, endLine, headerLine, publicKeyHex } from './format.ts'

/** Blocks read from the store at a time; their text is bounded there. */
const BLOCKS_PER_PAGE = 256

/** Called after each page. */
export type ExportProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/**
 * The lines of the chain in `store`, page by page as they are taken, and at last what the end says.
 * `folder` is where its key is looked for.
 *
 * The chain only grows, so no view is held: the blocks are those that there are at the first call,
 * however long it takes, and the node's log does not wait for a slow reader. Each block is verified
 * before it goes out. Errors: CHAIN_DAMAGED; StoreError.
 */
export async function* exportLines(
  store: StoreReader,
  folder: string,
  progress: ExportProgress,
): AsyncGenerator<string, ExportEnd> {
  const { serverId } = store
  const key = existingNodeKey(folder)
  const last = await store.head(serverId)
  const size = last === null ? 0 : last.height + 1
  const header = { version: EXPORT_VERSION, serverId, size, headId: last?.id ?? null }
  const publicKey = key?.serverId === serverId ? publicKeyHex(key.privateKey) : null
  yield `${headerLine({ ...header, publicKey })}\n`
  let head: Head | null = null
  let blocks = 0
  let entries = 0
  while (blocks < size) {
    const page = await store.blocks(serverId, blocks, Math.min(BLOCKS_PER_PAGE, size - blocks))
    if (page.length === 0) throw damaged(blocks, 'the block is missing')
    let text = ''
    for (const block of page) {
      const erased = erasedIn(block)
      const fault = verifyBlock(block, head, erased)
      if (fault !== null) throw damaged(fault.height, fault.what, fault.index)
      for (const index of erased) await expectEraser(store, packPosition(block.height, index), size)
      head = headOf(block)
      entries += block.entries.length
      text += `${provenBlockJson(block)}\n`
    }
    blocks += page.length
    yield text
    progress({ blocks, ofBlocks: size, entries })
  }
  const end = { blocks, entries, headId: header.headId }
  yield `${endLine(end)}\n`
  return end
}

/** An entry without a blind is in an export with the entry that erases it, or the export says nothing. */
async function expectEraser(store: StoreReader, position: number, size: number): Promise<void> {
  const eraser = await store.eraser(position)
  if (eraser !== null && unpackPosition(eraser).height < size) return
  const { height, index } = unpackPosition(position)
  const why =
    eraser === null
      ? 'it has no blind, and no entry erases it'
      : 'it was erased meanwhile; export anew'
  throw damaged(height, why, index)
}

function damaged(height: number, what: string, index: number | null = null): ExportError {
  const entry = index === null ? '' : `, entry ${index}`
  return new ExportError(
    'CHAIN_DAMAGED',
    `the chain does not hold at height ${height}${entry}: ${what}`,
  )
}

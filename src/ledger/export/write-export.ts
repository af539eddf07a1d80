import {
  type Block,
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
import {
  EXPORT_VERSION,
  type ExportEnd,
  ExportError,
  endLine,
  headerLine,
  publicKeyHex,
} from './format.ts'

/** Blocks read at a time; the store bounds their text. */
const BLOCKS_PER_PAGE = 256

/** Called after each page. */
export type ExportProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/**
 * Yields the lines of an export of `store`, page by page; returns what the end line says. Looks for the
 * node's key in `folder`.
 *
 * Exports the blocks that exist at the first call. The chain only grows, so this holds no database
 * snapshot, and a slow reader does not hold up the node. Each block is verified before it is yielded.
 * Errors: CHAIN_DAMAGED; StoreError.
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
      const fault = verifyBlock(block, head, erasedIn(block))
      if (fault !== null) throw damaged(fault.height, fault.what, fault.index)
      await expectErasers(store, block, size)
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

/** An erased entry must be exported together with the entry that erases it, or an import refuses it. */
async function expectErasers(store: StoreReader, block: Block, size: number): Promise<void> {
  const { height } = block
  for (const index of erasedIn(block)) {
    const eraser = await store.eraser(packPosition(height, index))
    if (eraser === null) throw damaged(height, 'it has no blind, and no entry erases it', index)
    if (unpackPosition(eraser).height >= size) {
      throw damaged(height, 'it was erased meanwhile; export anew', index)
    }
  }
}

function damaged(height: number, what: string, index: number | null = null): ExportError {
  const entry = index === null ? '' : `, entry ${index}`
  return new ExportError(
    'CHAIN_DAMAGED',
    `the chain does not hold at height ${height}${entry}: ${what}`,
  )
}

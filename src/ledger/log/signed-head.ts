import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Checkpoint,
  checkpointOf,
  checkpointText,
  EMPTY_FRONTIER,
  equalBytes,
  frontierAt,
  logOrigin,
  ProofError,
  rootOf,
} from '../../chain/index.ts'
import { fileExists, type StoreReader } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { LedgerError } from '../errors.ts'

const FILE = 'signed-head'

/** Storage of the last signed head. The head is stored before its signature is published. */
export interface SignedHead {
  /** Returns null if nothing was ever signed. Errors: LOG_HEAD_DAMAGED. */
  read(): Checkpoint | null
  /** On return, the head survives a power cut. */
  write(head: Checkpoint): void
}

/**
 * The signed head in a data folder. It is a file separate from the store, so that restoring an older store
 * contradicts it; backups exclude it for the same reason. It contains the signed text: origin, size and root, one
 * per line.
 */
export function signedHeadIn(folder: string): SignedHead {
  const path = join(folder, FILE)
  return {
    read() {
      if (!fileExists(path)) return null
      try {
        return checkpointOf(readFileSync(path, 'utf8'))
      } catch (error) {
        if (!(error instanceof ProofError)) throw error
        throw new LedgerError('LOG_HEAD_DAMAGED', `${path} does not contain a signed head`, {
          cause: error,
        })
      }
    },
    write(head) {
      writeDurably(path, checkpointText(head))
    },
  }
}

/** The signed head of a node with a temporary folder. */
export function temporaryHead(): SignedHead {
  let kept: Checkpoint | null = null
  return {
    read: () => kept,
    write(head) {
      kept = head
    },
  }
}

/** The root of the log of the first `size` blocks of `store`, which must exist. */
export async function rootAt(
  store: Pick<StoreReader, 'serverId' | 'treeNodes'>,
  size: number,
): Promise<Uint8Array> {
  const frontier = await frontierAt(size, (nodes) => store.treeNodes(store.serverId, nodes))
  return rootOf(frontier)
}

/**
 * Rejects a store that contradicts the signed head. A shorter store was restored from an older state; continuing
 * from there would make a second history under the same key. Errors: STORE_ROLLED_BACK, LOG_CONTRADICTED,
 * LOG_HEAD_DAMAGED.
 */
export async function expectSignedHead(store: StoreReader, kept: SignedHead): Promise<void> {
  const signed = kept.read()
  if (signed === null) return
  const { serverId } = store
  if (signed.origin !== logOrigin(serverId)) {
    throw new LedgerError('LOG_CONTRADICTED', `the signed head belongs to ${signed.origin}`)
  }
  const head = await store.head(serverId)
  const size = head === null ? 0 : head.height + 1
  if (size < signed.size) {
    throw new LedgerError(
      'STORE_ROLLED_BACK',
      `the store has ${size} blocks, but this node has signed ${signed.size}: an older copy was ` +
        'restored; restore a copy with all signed blocks, because continuing would fork the chain',
    )
  }
  if (equalBytes(await rootAt(store, signed.size), signed.root)) return
  throw new LedgerError(
    'LOG_CONTRADICTED',
    `the first ${signed.size} blocks of the store are not those that this node has signed`,
  )
}

/**
 * Describes in one sentence how the store contradicts `text`, the content of a `signed-head` file, or returns null.
 * The store must be opened after `text` was read: blocks are committed before they are signed.
 */
export async function contradictionOf(store: StoreReader, text: string): Promise<string | null> {
  try {
    const head = checkpointOf(text)
    await expectSignedHead(store, { read: () => head, write() {} })
    return null
  } catch (error) {
    if (error instanceof ProofError) return 'the file of the signed head is malformed'
    if (error instanceof LedgerError) return error.message
    throw error
  }
}

/**
 * Rejects a folder that has a signed head but no store: a new store under the same key would be a second history.
 * Call it before creating a store. Errors: STORE_ROLLED_BACK, LOG_HEAD_DAMAGED.
 */
export function expectNoHead(folder: string, kept: SignedHead): void {
  const signed = kept.read()
  if (signed === null) return
  const blocks = signed.size === 0 ? '' : `, with ${signed.size} signed blocks`
  throw new LedgerError(
    'STORE_ROLLED_BACK',
    `the store of ${folder}${blocks} is missing: put it back, or run daicho restore or import; ` +
      'a new store under the same key would fork the chain',
  )
}

/**
 * Stores the head of the empty log, which every log continues, if no head is stored yet, so that a store that is
 * lost later is detected even if nothing was signed. After a crash before this, the store has no blocks, and the
 * next start calls this again.
 */
export function storeEmptyHead(kept: SignedHead, origin: string): void {
  if (kept.read() !== null) return
  kept.write({ origin, size: 0, root: rootOf(EMPTY_FRONTIER) })
}

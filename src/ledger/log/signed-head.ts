import { type KeyObject, sign } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import {
  type Checkpoint,
  checkpointText,
  EMPTY_FRONTIER,
  equalBytes,
  type Frontier,
  frontierAt,
  frontierRoot,
  logOrigin,
  ProofError,
  parseCheckpoint,
  signedNote,
  unverifiedText,
  type VerifierKey,
} from '../../chain/index.ts'
import { type StoreReader, writeDurably } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { NodeKey } from './node-key.ts'

/** File with the last signed head in a data folder. Backups exclude it. */
export const SIGNED_HEAD_FILE = 'signed-head'

export interface LogKey {
  readonly verifier: VerifierKey
  readonly privateKey: KeyObject
}

/** Returns the key of a node as the key that signs its log. */
export function toLogKey({ serverId, publicKey, privateKey }: NodeKey): LogKey {
  return { verifier: { name: logOrigin(serverId), publicKey }, privateKey }
}

export function signHead({ verifier, privateKey }: LogKey, log: Frontier): string {
  const text = checkpointText({ origin: verifier.name, size: log.size, root: frontierRoot(log) })
  return signedNote(verifier, text, (message) => sign(null, message, privateKey))
}

/** Storage of the last signed head. The head is stored before its signature is published. */
export interface SignedHead {
  /** Returns the stored head, or null. Does not verify the signature. Errors: LOG_HEAD_DAMAGED. */
  read(): Checkpoint | null
  /** Stores a signed note durably. */
  write(note: string): void
}

/** Parses the content of a `signed-head` file. Does not verify the signature. Errors: ProofError. */
export function parseSignedHead(note: string): Checkpoint {
  return parseCheckpoint(unverifiedText(note))
}

/**
 * Returns the signed head in a data folder. The file is separate from the store and not part of backups. So if an older
 * store is restored, the signed head shows that blocks are missing.
 */
export function signedHeadFile(folder: string): SignedHead {
  const path = join(folder, SIGNED_HEAD_FILE)
  return {
    read() {
      if (!fileExists(path)) return null
      try {
        return parseSignedHead(readFileSync(path, 'utf8'))
      } catch (error) {
        if (!(error instanceof ProofError)) throw error
        throw new LedgerError(
          'LOG_HEAD_DAMAGED',
          `${path} does not contain a signed head: compare the chain with a peer or an auditor, then move the file away`,
          {
            cause: error,
          },
        )
      }
    },
    write(note) {
      writeDurably(path, note)
    },
  }
}

/** Returns storage in memory, for a node with a temporary folder. */
export function temporaryHead(): SignedHead {
  let kept: Checkpoint | null = null
  return {
    read: () => kept,
    write(note) {
      kept = parseSignedHead(note)
    },
  }
}

/** Returns the root of the log of the first `size` blocks of `store`, which must exist. */
export async function rootAt(
  store: Pick<StoreReader, 'serverId' | 'treeNodes'>,
  size: number,
): Promise<Uint8Array> {
  const frontier = await frontierAt(size, (nodes) => store.treeNodes(store.serverId, nodes))
  return frontierRoot(frontier)
}

/**
 * Rejects a store that contradicts the signed head. A store with fewer blocks was restored from an older copy, and new
 * blocks in it would make a second history under the same key.
 * Errors: STORE_ROLLED_BACK, LOG_CONTRADICTED, LOG_HEAD_DAMAGED.
 */
export async function requireSignedHead(store: StoreReader, kept: SignedHead): Promise<void> {
  const signed = kept.read()
  if (signed === null) return
  const { serverId } = store
  if (signed.origin !== logOrigin(serverId)) {
    throw new LedgerError(
      'LOG_CONTRADICTED',
      `${SIGNED_HEAD_FILE} belongs to the log ${signed.origin}, but the store contains the log ` +
        `${logOrigin(serverId)}: put back the ${SIGNED_HEAD_FILE} of this node`,
    )
  }
  const head = await store.head(serverId)
  const size = head === null ? 0 : head.height + 1
  if (size < signed.size) {
    throw new LedgerError(
      'STORE_ROLLED_BACK',
      `the store has ${size} blocks, but this node has signed ${signed.size}: an older copy was ` +
        'restored, or the store was moved: check STORE; restore a copy with all signed blocks, because continuing would fork the chain',
    )
  }
  if (equalBytes(await rootAt(store, signed.size), signed.root)) return
  throw new LedgerError(
    'LOG_CONTRADICTED',
    `the first ${signed.size} blocks of the store are not those that this node has signed`,
  )
}

/** Names that an interrupted import, copy or restore leaves in a folder without a store. */
const UNFINISHED = /^(?:(?:copy|import|rebuild|restore)\.partial|restored\.json)$/

/**
 * Returns why no store may be created in `folder`, or null: with a signed head or an unfinished restore, a new store
 * under the same key would be a second history. Errors: LOG_HEAD_DAMAGED.
 */
export function lostStoreFinding(folder: string): string | null {
  const signed = signedHeadFile(folder).read()
  if (signed !== null) {
    const blocks = signed.size === 0 ? '' : `, with ${signed.size} signed blocks`
    return (
      `the store of ${folder}${blocks} is missing or empty: put it back, or run daicho restore or import; ` +
      'a new store under the same key would fork the chain'
    )
  }
  const unfinished = readdirSync(folder).find((name) => UNFINISHED.test(name))
  if (unfinished === undefined) return null
  return (
    `${folder} has no store, but ${unfinished} of an interrupted restore, import or copy: run the command again, or ` +
    `remove ${unfinished}; a new store under the same key could fork the chain`
  )
}

/**
 * Stores the head of the empty log if no head is stored yet. Every log continues the empty log. With this head,
 * `lostStoreFinding` detects a store that is lost later, even if no block was signed. After a crash before this call, the
 * store has no blocks, and the next start calls this function again.
 */
export function storeEmptyHead(kept: SignedHead, key: NodeKey): void {
  if (kept.read() === null) kept.write(signHead(toLogKey(key), EMPTY_FRONTIER))
}

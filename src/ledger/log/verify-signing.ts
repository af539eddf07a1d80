import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import {
  equalBytes,
  logOrigin,
  nodeVerifySignature,
  openCheckpoint,
  ProofError,
  parseStateNote,
} from '../../chain/index.ts'
import { LOCK_FILE, STATE_FILE, StateFile, type StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { findNodeKey, type NodeKey } from './node-key.ts'
import { recomputeState } from './recomputed-state.ts'
import { parseSignedHead, requireSignedHead, SIGNED_HEAD_FILE } from './signed-head.ts'

/** The files of a data folder that concern the signatures of its node: the key and the signed head. */
export interface SigningFiles {
  readonly key: NodeKey | 'missing' | 'malformed'
  /** Content of `signed-head`, or null. */
  readonly head: string | null
  /** The signed state in `state.db`, or null. */
  readonly state: string | null
  /** Whether a node or an import has used the folder. If not, the folder is a backup, which has no signed head. */
  readonly isUsed: boolean
}

/**
 * Reads the files. Must be called before the store is opened, so that the store contains all blocks of the signed head
 * even if a node is writing.
 * Errors: the errors of the system if a file exists but cannot be read.
 */
export function readSigningFiles(folder: string): SigningFiles {
  const path = join(folder, SIGNED_HEAD_FILE)
  return {
    key: readKey(folder),
    head: fileExists(path) ? readFileSync(path, 'utf8') : null,
    state: readState(join(folder, STATE_FILE)),
    // A mirror, which has the file `vkey`, is locked too.
    isUsed: existsSync(join(folder, LOCK_FILE)) && !existsSync(join(folder, 'vkey')),
  }
}

/** Returns the signed state in a state file; null if the file is damaged, because the node then makes it again. */
function readState(path: string): string | null {
  try {
    const file = StateFile.openReader(path)
    const note = file?.head().note ?? null
    file?.close()
    return note
  } catch {
    return null
  }
}

/** Recomputes the signed state from the chain. Returns a message if it is wrong, or null. Errors: StoreError. */
export async function stateFinding(
  store: StoreReader,
  note: string | null,
): Promise<string | null> {
  if (note === null) return null
  try {
    // The state of a mirror has no signature if the owner of the chain has not signed it.
    const signed = parseStateNote({ name: logOrigin(store.serverId) }, note)
    const { size, root, log } = await recomputeState(store, signed.size)
    const isSame = equalBytes(root, signed.root) && equalBytes(log, signed.log)
    if (size === signed.size && isSame) return null
    return `${STATE_FILE} has a signed state that is not the state of the first ${signed.size} blocks: ${AGAIN}`
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    return `${STATE_FILE} has no signed state of this chain: ${AGAIN}`
  }
}

const AGAIN =
  'remove the file while no node uses the folder; the node then computes the state again'

function readKey(folder: string): SigningFiles['key'] {
  try {
    return findNodeKey(folder) ?? 'missing'
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    if (error.cause instanceof Error && 'syscall' in error.cause) throw error.cause
    return 'malformed'
  }
}

/**
 * Compares the files with each other and with the chain. Returns a message with the problem and its solution, or null.
 */
export async function signingFinding(
  store: StoreReader,
  { key, head, isUsed }: SigningFiles,
): Promise<string | null> {
  const { serverId } = store
  if (key === 'malformed') {
    return 'node.key is not an Ed25519 key, so no node can continue this chain: put the key back'
  }
  if (key === 'missing') {
    // A mirror, a backup without keys or a copy of the store has neither file.
    if (head === null) return null
    return (
      'node.key is missing, so no node can continue this chain: put the key back; if it is lost, restore the ' +
      'data under a new key with daicho restore --key or daicho import --key'
    )
  }
  if (key.serverId !== serverId) {
    return (
      `node.key is the key of server id ${key.serverId}, and the store has the chain of ${serverId}: ` +
      'put back the key of this chain'
    )
  }
  if (head !== null) return signedHeadFinding(store, { key, head })
  // If the node crashed before the first block, the signed head can be missing.
  if (!isUsed || (await store.head(serverId)) === null) return null
  return (
    'signed-head is missing, so verify cannot tell whether the chain in this folder was rolled back or replaced: ' +
    'compare the head of the chain with the head that a peer, an auditor or a saved checkpoint shows; then start ' +
    'the node, which writes the file'
  )
}

/**
 * Compares only the signed head with the chain. Returns the same message as `signingFinding`, or null if they agree or
 * the folder has no signed head. Without the key of the chain, does not verify the signature.
 */
export async function signedHeadFinding(
  store: StoreReader,
  { key, head: content }: Pick<SigningFiles, 'key' | 'head'>,
): Promise<string | null> {
  if (content === null) return null
  try {
    const head = parseSignedHead(content)
    const name = logOrigin(store.serverId)
    if (head.origin !== name) {
      return `signed-head belongs to the log ${head.origin}, but the store contains the log ${name}: put back the signed-head of this node`
    }
    if (typeof key === 'object' && key.serverId === store.serverId) {
      await openCheckpoint(nodeVerifySignature, { name, publicKey: key.publicKey }, content)
    }
    await requireSignedHead(store, { read: () => head, write() {} })
    return null
  } catch (error) {
    if (error instanceof LedgerError) return error.message
    if (error instanceof ProofError) return explainProofError(error)
    throw error
  }
}

const COMPARE =
  'compare the chain with a peer or an auditor, then move the file away and start the node'

function explainProofError({ code }: ProofError): string {
  if (code === 'NOTE_UNSIGNED') {
    return `signed-head is not signed by node.key: another node has written the file; ${COMPARE}`
  }
  if (code === 'NOTE_FORGED') {
    return `the signature in signed-head is wrong: the file was changed after it was signed; ${COMPARE}`
  }
  return `signed-head is not the signed head of a log: the file was changed; ${COMPARE}`
}

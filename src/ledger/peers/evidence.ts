import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import {
  type Checkpoint,
  type Evidence,
  entriesOfBundle,
  equalBytes,
  evidenceText,
  findContradiction,
  headerText,
  isStateEvidence,
  nodesFromTiles,
  nodeVerifySignature,
  openCheckpoint,
  parseEvidence,
  readableLog,
  type SignedLog,
  TILE_WIDTH,
  type TreeNode,
  type VerifierKey,
} from '../../chain/index.ts'
import {
  isDatabaseUrl,
  type StoreLocation,
  type StoreReader,
  sharedTextChanges,
  writeDurably,
} from '../../storage/index.ts'
import { rootAt } from '../log/signed-head.ts'
import type { ChainSource } from './peer-client.ts'

// If neither of two signed logs continues the other, their key has signed two histories (a split view).
// This file reads both logs, and stores their notes with a proof as evidence.

const FILE = 'evidence.json'
/** Name of the text in a database with the evidence against the key of the node, which all of its processes share. */
export const OWN_EVIDENCE = 'own-evidence'
/** Maximum number of verified notes in memory. */
export const CHECKPOINTS_MAX = 64

/**
 * Returns the evidence in `folder`, or null. A file that cannot be read counts as evidence, so that a damaged file does
 * not unfreeze a mirror.
 */
export function readEvidence(folder: string): Evidence | null {
  const path = join(folder, FILE)
  try {
    return fileExists(path) ? parseEvidence(readFileSync(path, 'utf8')) : null
  } catch {
    return unreadable(path)
  }
}

/** Returns the evidence in the text OWN_EVIDENCE of a database, or null, as `readEvidence` does. */
export function readSharedEvidence(text: string | null): Evidence | null {
  try {
    return text === null ? null : parseEvidence(text)
  } catch {
    return unreadable(`the text ${OWN_EVIDENCE} of the database`)
  }
}

function unreadable(name: string): Evidence {
  return { what: `${name} cannot be read`, notes: ['', ''], proof: null }
}

/** Stores evidence durably, unless evidence is stored already. Two histories replace a wrong state. */
export function storeEvidence(folder: string, evidence: Evidence): void {
  const stored = readEvidence(folder)
  if (stored !== null && (!isStateEvidence(stored) || isStateEvidence(evidence))) return
  writeDurably(join(folder, FILE), evidenceText(evidence))
}

/**
 * Stores evidence against the node's own key durably, in its folder or in the database of all its processes, unless
 * evidence is stored already. Errors: StoreError.
 */
export async function storeOwnEvidence(
  { location, folder }: Pick<OwnChain, 'location' | 'folder'>,
  evidence: Evidence,
): Promise<void> {
  if (!isDatabaseUrl(location)) return storeEvidence(folder, evidence)
  const change = await sharedTextChanges(location, OWN_EVIDENCE)
  await change((text) => text ?? evidenceText(evidence))
}

/** A verified checkpoint, and its note. */
export interface SignedCheckpoint extends Checkpoint {
  readonly note: string
}

/**
 * Verifies the checkpoints of one log. Remembers verified notes, because peers mostly repeat the same note, and
 * verifying a signature is the most expensive part of a sync.
 */
export class CheckpointVerifier {
  readonly #key: VerifierKey
  readonly #verified = new Map<string, SignedCheckpoint>()

  constructor(key: VerifierKey) {
    this.#key = key
  }

  /** Returns the verified checkpoint in `note`. Errors: ProofError. */
  async open(note: string): Promise<SignedCheckpoint> {
    const known = this.#verified.get(note)
    if (known !== undefined) return known
    const checkpoint = { ...(await openCheckpoint(nodeVerifySignature, this.#key, note)), note }
    if (this.#verified.size === CHECKPOINTS_MAX) this.#verified.clear()
    this.#verified.set(note, checkpoint)
    return checkpoint
  }
}

/** A log with a signed head, stored on this node or read from a peer. */
export interface KnownLog extends SignedLog {
  readonly checkpoint: SignedCheckpoint
}

/** The members of a store reader that read the log. */
export type StoredBlocks = Pick<StoreReader, 'serverId' | 'treeNodes' | 'headers'>

/** Returns the log of `checkpoint`, read from `store`, which must have all its blocks. */
export function storedLog(checkpoint: SignedCheckpoint, store: StoredBlocks): KnownLog {
  const { serverId } = store
  const blocks = {
    nodes: (nodes: readonly TreeNode[]) => store.treeNodes(serverId, nodes),
    header: async (height: number) => {
      const [header] = await store.headers(serverId, height, 1)
      if (header === undefined) throw new RangeError(`the store has no block ${height}`)
      return headerText(header)
    },
  }
  return { ...readableLog(checkpoint, blocks), checkpoint }
}

/** Returns the log of `checkpoint`, read from `source`. */
export function shownLog(
  checkpoint: SignedCheckpoint,
  source: Pick<ChainSource, 'tile'>,
): KnownLog {
  const blocks = {
    nodes: nodesFromTiles(checkpoint.size, (tile) => source.tile(tile)),
    header: async (height: number) => {
      const [index, at] = [Math.floor(height / TILE_WIDTH), height % TILE_WIDTH]
      const bundle = await source.tile({ level: 'entries', index, width: at + 1 })
      const header = entriesOfBundle(bundle)?.[at]
      return new TextDecoder().decode(header)
    },
  }
  return { ...readableLog(checkpoint, blocks), checkpoint }
}

export interface OwnChain {
  readonly checkpoints: CheckpointVerifier
  readonly store: StoreReader
  readonly location: StoreLocation
  readonly folder: string
  /** Returns the newest signed head of the node, or null if it is not available now. */
  readonly checkpoint: () => Promise<string | null>
}

/**
 * Compares this node's own chain with the copy of a peer. Signed blocks of the copy that are not in this node's store
 * are a conflict: an older copy of the disk was restored, or another node has the same key. New blocks of this node
 * would then create a second history.
 * Returns a message about the conflict, or null if there is none. Errors: the errors of the source; ProofError if the
 * head is not signed by the node's key.
 */
export async function ownChainConflict(source: ChainSource, own: OwnChain): Promise<string | null> {
  const head = await own.checkpoints.open(await source.checkpoint())
  // Refreshes the store now, so that it includes all blocks that this node had signed when the peer replied.
  own.store.refresh()
  const last = await own.store.head(own.store.serverId)
  const size = last === null ? 0 : last.height + 1
  if (head.size > size) {
    return (
      `a peer has ${head.size} blocks of this node's chain, but the store only ${size}: ` +
      'an older copy was restored, or another node has the same key; restore the chain from the peer'
    )
  }
  if (equalBytes(await rootAt(own.store, head.size), head.root)) return null
  const what = `the key has signed ${head.size} blocks that are not the first blocks of this store`
  // Evidence needs a head of this node that covers the differing blocks. If there is no such head yet, the next check
  // tries again.
  const ownNote = await own.checkpoint()
  if (ownNote !== null) {
    const ownLog = storedLog(await own.checkpoints.open(ownNote), own.store)
    const found = await findContradiction(ownLog, shownLog(head, source))
    const evidence = found && { ...found, what, notes: [ownNote, head.note] as const }
    // If the evidence cannot be stored now, the next check tries again.
    if (evidence !== null) await storeOwnEvidence(own, evidence).catch(() => {})
  }
  return `${what}: another node has the same key`
}

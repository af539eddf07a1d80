import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Checkpoint,
  equalBytes,
  type Frontier,
  grown,
  HASH_BYTES,
  nodeVerifySignature,
  openCheckpoint,
  rootOf,
  TILE_WIDTH,
  type VerifierKey,
} from '../../chain/index.ts'
import { fileExists, type StoreReader } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { jsonMembers } from '../json-members.ts'
import { rootAt } from '../log/signed-head.ts'
import type { ChainSource } from './peer-client.ts'

// A key that signed two checkpoints has signed two histories (a split view) if neither log continues the other.
// This file detects that and stores both notes as evidence.

const FILE = 'evidence.json'
/** Longer logs are not searched for a fork, but their blocks are still rejected. */
const FORK_BLOCKS_MAX = 2 ** 24
/** Maximum number of verified notes that are remembered. */
export const CHECKPOINTS_MAX = 64

/** Two notes of one key that cannot both be true. */
export interface Evidence {
  /** One sentence that describes the contradiction. */
  readonly what: string
  /** The note that was seen first, and the contradicting one. */
  readonly notes: [string, string]
}

/** Returns the evidence in `folder`, or null. A file that cannot be read counts as evidence. */
export function readEvidence(folder: string): Evidence | null {
  const path = join(folder, FILE)
  if (!fileExists(path)) return null
  const { what, notes } = jsonMembers(readFileSync(path, 'utf8'))
  const [first = '', second = ''] = Array.isArray(notes) ? notes : []
  return { what: String(what ?? `${path} cannot be read`), notes: [String(first), String(second)] }
}

/** Stores evidence durably. Only the first is kept. */
export function storeEvidence(folder: string, evidence: Evidence): void {
  if (readEvidence(folder) !== null) return
  writeDurably(join(folder, FILE), `${JSON.stringify(evidence)}\n`)
}

/** A verified checkpoint, and its note. */
export interface SignedCheckpoint extends Checkpoint {
  readonly note: string
}

/**
 * Verifies the checkpoints of one log and remembers verified notes. Peers mostly repeat the same note, and
 * verifying its signature is the most expensive part of a round.
 */
export class CheckpointVerifier {
  readonly #key: VerifierKey
  readonly #verified = new Map<string, SignedCheckpoint>()

  constructor(key: VerifierKey) {
    this.#key = key
  }

  /** Errors: ProofError. */
  async open(note: string): Promise<SignedCheckpoint> {
    const known = this.#verified.get(note)
    if (known !== undefined) return known
    const checkpoint = { ...(await openCheckpoint(nodeVerifySignature, this.#key, note)), note }
    if (this.#verified.size === CHECKPOINTS_MAX) this.#verified.clear()
    this.#verified.set(note, checkpoint)
    return checkpoint
  }
}

/** The size and root of a log. */
export type TreeHead = Pick<Checkpoint, 'size' | 'root'>

/**
 * Whether the log of `head` does not begin with one of the logs in `known`: its leaves give the root of `head`, and
 * a different root at a known size. A source that merely lies cannot produce this. Never rejects.
 */
export async function isForkByLeaves(
  known: readonly TreeHead[],
  head: SignedCheckpoint,
  source: Pick<ChainSource, 'leaves'>,
): Promise<boolean> {
  const smaller = known.filter(({ size }) => size > 0 && size <= head.size)
  if (smaller.length === 0 || head.size > FORK_BLOCKS_MAX) return false
  let frontier: Frontier = { size: 0, peaks: [] }
  let differs = false
  try {
    while (frontier.size < head.size) {
      const width = Math.min(TILE_WIDTH, head.size - frontier.size)
      const tile = await source.leaves(frontier.size / TILE_WIDTH, width)
      for (let at = 0; at < width; at += 1) {
        const leaf = tile.slice(at * HASH_BYTES, (at + 1) * HASH_BYTES)
        frontier = grown(frontier, leaf).frontier
        const { size } = frontier
        differs ||= smaller.some((one) => {
          return one.size === size && !equalBytes(rootOf(frontier), one.root)
        })
      }
    }
  } catch {
    return false
  }
  return differs && equalBytes(rootOf(frontier), head.root)
}

/** This node's own chain. */
export interface OwnChain {
  readonly checkpoints: CheckpointVerifier
  readonly store: StoreReader
  /** The data folder. */
  readonly folder: string
  /** Returns the newest signed head of the node, or null if it is not available now. */
  readonly checkpoint: () => Promise<string | null>
}

/**
 * Asks a peer for its copy of this node's own chain. If the copy has a signed head that the store lacks, an older
 * state of the disk was restored, or another node has the same key; writing more would make a second history.
 * Returns a sentence about it, or null if there is no conflict. Errors: of the source; ProofError if the head is
 * not signed by the node's key.
 */
export async function ownChainConflict(source: ChainSource, own: OwnChain): Promise<string | null> {
  const head = await own.checkpoints.open(await source.checkpoint())
  // Refreshed after the reply, so that the store includes everything this node has signed until then.
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
  const what = `the key has signed ${head.size} blocks that are not the first ones of this store`
  // Without an own head there is no evidence yet; the next check tries again.
  const ownNote = await own.checkpoint()
  if (ownNote !== null) storeEvidence(own.folder, { what, notes: [ownNote, head.note] })
  return `${what}: another node has the same key`
}

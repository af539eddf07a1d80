import { fromBase64, toBase64 } from '../../base/base64.ts'
import { isCount, isJsonObject, type Json } from '../../base/json.ts'
import { parseHeader } from '../block.ts'
import { equalBytes, HASH_BYTES, hashAt, sha512Hex } from '../hashes.ts'
import {
  EMPTY_FRONTIER,
  type Frontier,
  frontierNodes,
  frontierRoot,
  grown,
  leafHash,
} from '../merkle-tree.ts'
import { ProofError, type VerifierKey, type VerifySignature } from './checkpoint.ts'
import { type CosignedCheckpoint, openCosigned, type WitnessPolicy } from './cosignatures.ts'
import { entriesOfBundle, TILE_WIDTH, tilePath } from './tiles.ts'

/** The state after an audit, from which the next audit continues. */
export interface Audited {
  readonly frontier: Frontier
  /** Id of the last block, or null if the chain is empty. */
  readonly headId: string | null
}

export const NOTHING_AUDITED: Audited = { frontier: EMPTY_FRONTIER, headId: null }

/** Fetches the bytes at a path below the prefix of the log. Can reject with any error. */
export type FetchBytes = (path: string) => Promise<Uint8Array>

export interface AuditOptions {
  readonly verifySignature: VerifySignature
  readonly key: VerifierKey
  /** Witnesses that must have cosigned the checkpoint; default: none. */
  readonly policy?: WitnessPolicy | null
  readonly serverId: number
  readonly fetch: FetchBytes
  /** Result of the last audit. */
  readonly before: Audited
  readonly progress?: (blocks: number, ofBlocks: number) => void
}

/**
 * Fetches the tiles with all headers that were added to a log since the last audit. Checks that these headers form a
 * chain, and that the signed checkpoint belongs to the log of the last audit followed by exactly these headers. Memory
 * use does not grow with the log.
 *
 * Errors: NOTE_…, CHECKPOINT_…; QUORUM_MISSED; LOG_ROLLED_BACK, LOG_FORKED if the checkpoint does not continue the
 * last audit; LOG_BROKEN if tiles and checkpoint do not match or the headers form no chain.
 */
export async function auditLog(
  options: AuditOptions,
): Promise<{ readonly checkpoint: CosignedCheckpoint; readonly audited: Audited }> {
  const { verifySignature, before, fetch } = options
  const note = new TextDecoder().decode(await fetch('checkpoint'))
  const checkpoint = await openCosigned(verifySignature, options, note)
  const known = before.frontier.size
  if (checkpoint.size < known) {
    throw new ProofError(
      'LOG_ROLLED_BACK',
      `the log has ${checkpoint.size} blocks, but had ${known} at the last audit`,
    )
  }
  let audited = before
  while (audited.frontier.size < checkpoint.size) {
    audited = await auditTile(options, audited, checkpoint.size)
    options.progress?.(audited.frontier.size, checkpoint.size)
  }
  if (equalBytes(frontierRoot(audited.frontier), checkpoint.root)) return { checkpoint, audited }
  if (known === 0) {
    throw new ProofError('LOG_BROKEN', 'the signed root does not match the headers')
  }
  const message = `the log does not continue the ${known} audited blocks`
  throw new ProofError('LOG_FORKED', message)
}

/** Audits the new headers of the next bundle, and the tile with their hashes. `size` is the size of the log. */
async function auditTile(
  { serverId, fetch, before: known }: AuditOptions,
  before: Audited,
  size: number,
): Promise<Audited> {
  let { frontier, headId } = before
  const index = Math.floor(frontier.size / TILE_WIDTH)
  const first = index * TILE_WIDTH
  const tile = { index, width: Math.min(TILE_WIDTH, size - first) }
  const [bundle, hashes] = await Promise.all([
    fetch(`tile/${tilePath({ level: 'entries', ...tile })}`),
    fetch(`tile/${tilePath({ level: 0, ...tile })}`),
  ])
  const entries = entriesOfBundle(bundle)
  if (entries?.length !== tile.width || hashes.length !== tile.width * HASH_BYTES) {
    throw broken(first, 'the tile has the wrong size')
  }
  for (const [at, entry] of entries.entries()) {
    const height = first + at
    if (height < frontier.size) continue
    const leaf = leafHash(entry)
    if (!equalBytes(leaf, hashAt(hashes, at))) {
      throw broken(height, 'the hash in the tile does not match the header')
    }
    const header = parseHeader(new TextDecoder().decode(entry))
    if (height === known.frontier.size && height > 0 && header?.prevId !== headId) {
      throw new ProofError('LOG_FORKED', `block ${height} does not follow the audited blocks`)
    }
    if (header?.height !== height || header.serverId !== serverId || header.prevId !== headId) {
      throw broken(height, 'the header does not continue the chain')
    }
    headId = sha512Hex(entry)
    frontier = grown(frontier, leaf).frontier
  }
  return { frontier, headId }
}

function broken(height: number, problem: string): ProofError {
  return new ProofError('LOG_BROKEN', `at height ${height}: ${problem}`)
}

export function auditedJson({ frontier, headId }: Audited): Json {
  return { size: frontier.size, peaks: frontier.peaks.map(toBase64), headId }
}

/** Parses the output of `auditedJson`. Returns null for any other value. */
export function decodeAudited(value: Json | undefined): Audited | null {
  if (!isJsonObject(value) || !Array.isArray(value.peaks)) return null
  const { size, headId = null } = value
  const peaks = value.peaks
    .map((peak) => (typeof peak === 'string' ? fromBase64(peak) : null))
    .filter((peak) => peak !== null)
    .filter((peak) => peak.length === HASH_BYTES)
  if (!isCount(size)) return null
  if (peaks.length !== frontierNodes(size).length || peaks.length !== value.peaks.length) {
    return null
  }
  if (headId !== null && !(typeof headId === 'string' && /^[0-9a-f]{128}$/.test(headId))) {
    return null
  }
  return { frontier: { size, peaks }, headId }
}

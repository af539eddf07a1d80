import { hash } from 'node:crypto'
import { fromBase64, toBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { type Header, headerText } from '../header.ts'
import { type Checkpoint, openCheckpoint } from './checkpoint.ts'
import { ProofError } from './errors.ts'
import { equalBytes, HASH_BYTES, leafHash } from './hashes.ts'
import type { Crypto, VerifierKey } from './note.ts'
import { entriesOfBundle, TILE_WIDTH, tilePath } from './tiles.ts'
import { EMPTY_FRONTIER, type Frontier, frontierNodes, grown, rootOf } from './tree.ts'

/** What an auditor remembers of a log that it has gone through. */
export interface Audited {
  readonly frontier: Frontier
  /** The id of the last block, or null when there is none. */
  readonly headId: string | null
}

/** Before the first audit. */
export const NOTHING_AUDITED: Audited = { frontier: EMPTY_FRONTIER, headId: null }

/** Gives the bytes at a path below the log's prefix. Errors: any, when it cannot. */
export type FetchBytes = (path: string) => Promise<Uint8Array>

/** How an audit runs. */
export interface AuditOptions {
  readonly crypto: Crypto
  readonly key: VerifierKey
  readonly serverId: number
  readonly fetch: FetchBytes
  /** What the last audit ended with. */
  readonly before: Audited
  readonly progress?: (blocks: number, ofBlocks: number) => void
}

/**
 * Reads all headers that were added to a log since the last audit, from its tiles, and shows that the
 * signed head is the log of the last audit with exactly these headers after it; and that they make a
 * chain. Memory does not grow with the log.
 *
 * Errors: NOTE_…, CHECKPOINT_…; LOG_ROLLED_BACK, LOG_FORKED when the head does not continue what was
 * audited; LOG_BROKEN when tiles and head do not fit or the headers make no chain.
 */
export async function auditLog(
  options: AuditOptions,
): Promise<{ readonly checkpoint: Checkpoint; readonly audited: Audited }> {
  const { crypto, key, before, fetch } = options
  const note = new TextDecoder().decode(await fetch('checkpoint'))
  const checkpoint = await openCheckpoint(crypto, key, note)
  const known = before.frontier.size
  if (checkpoint.size < known) {
    throw new ProofError(
      'LOG_ROLLED_BACK',
      `the log has ${checkpoint.size} blocks, and had ${known} when it was last audited`,
    )
  }
  let audited = before
  while (audited.frontier.size < checkpoint.size) {
    const { size } = audited.frontier
    const index = Math.floor(size / TILE_WIDTH)
    const width = Math.min(TILE_WIDTH, checkpoint.size - index * TILE_WIDTH)
    audited = await auditedTile(options, audited, index, width)
    options.progress?.(audited.frontier.size, checkpoint.size)
  }
  if (equalBytes(rootOf(crypto.sha256, audited.frontier), checkpoint.root)) {
    return { checkpoint, audited }
  }
  const [code, what] =
    known === 0
      ? (['LOG_BROKEN', 'the signed root is not that of the headers'] as const)
      : (['LOG_FORKED', `the log does not continue the ${known} blocks that were audited`] as const)
  throw new ProofError(code, what)
}

/** Goes through the headers of one bundle that are new, beside the tile of their hashes. */
async function auditedTile(
  { crypto, serverId, fetch, before: known }: AuditOptions,
  before: Audited,
  index: number,
  width: number,
): Promise<Audited> {
  const tile = { index, width }
  const [bundle, hashes] = await Promise.all([
    fetch(`tile/${tilePath({ level: 'entries', ...tile })}`),
    fetch(`tile/${tilePath({ level: 0, ...tile })}`),
  ])
  const entries = entriesOfBundle(bundle)
  if (entries?.length !== width || hashes.length !== width * HASH_BYTES) {
    throw broken(index * TILE_WIDTH, 'the tile has another size')
  }
  let { frontier, headId } = before
  for (const [at, entry] of entries.entries()) {
    const height = index * TILE_WIDTH + at
    if (height < frontier.size) continue
    const leaf = leafHash(crypto.sha256, entry)
    if (!equalBytes(leaf, hashes.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES))) {
      throw broken(height, 'the hash in the tile is not that of the header')
    }
    const text = new TextDecoder().decode(entry)
    const header = headerIn(text)
    if (height === known.frontier.size && height > 0 && header?.prevId !== headId) {
      throw new ProofError('LOG_FORKED', `block ${height} does not continue what was audited`)
    }
    if (header?.height !== height || header.serverId !== serverId || header.prevId !== headId) {
      throw broken(height, 'the header does not continue the chain')
    }
    headId = hash('sha512', text)
    frontier = grown(crypto.sha256, frontier, leaf).frontier
  }
  return { frontier, headId }
}

/** The header that `text` is, or null when it is not exactly one. */
function headerIn(text: string): Header | null {
  const value = parsed(text)
  if (!isJsonObject(value)) return null
  const { serverid, height, prev_id: prevId, nonce, root, count } = value
  if (typeof serverid !== 'number' || typeof height !== 'number') return null
  if (typeof nonce !== 'number' || typeof count !== 'number' || typeof root !== 'string')
    return null
  if (prevId !== null && typeof prevId !== 'string') return null
  const header = { serverId: serverid, height, prevId, nonce, root, count }
  return headerText(header) === text && /^[0-9a-f]{64}$/.test(root) ? header : null
}

function parsed(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

function broken(height: number, what: string): ProofError {
  return new ProofError('LOG_BROKEN', `at height ${height}: ${what}`)
}

/** What was audited, as JSON for the next time. */
export function auditedJson({ frontier, headId }: Audited): Json {
  return { size: frontier.size, peaks: frontier.peaks.map(toBase64), headId }
}

/** What `auditedJson` made `value` of, or null. */
export function auditedOf(value: Json | undefined): Audited | null {
  if (!isJsonObject(value) || !Array.isArray(value.peaks)) return null
  const { size, headId = null } = value
  const peaks = value.peaks
    .map((peak) => (typeof peak === 'string' ? fromBase64(peak) : null))
    .filter((peak) => peak?.length === HASH_BYTES)
    .filter((peak) => peak !== null)
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return null
  if (peaks.length !== frontierNodes(size).length || peaks.length !== value.peaks.length)
    return null
  if (headId !== null && !(typeof headId === 'string' && /^[0-9a-f]{128}$/.test(headId)))
    return null
  return { frontier: { size, peaks }, headId }
}

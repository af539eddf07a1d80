import { fromBase64, toBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { parsePosition, positionText } from '../entry.ts'
import { fromHex, HASH_BYTES, toHex } from '../hashes.ts'
import {
  openNote,
  ProofError,
  parseCheckpoint,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'

// The current state of a chain: a map with a leaf for each database, by its name, and a map for each database with a leaf
// for each item, by its id. `map.ts` defines their roots. The value of a leaf is canonical JSON.

/** The current revision of an item. */
export interface ItemState {
  /** Packed position of the newest entry that created or changed the item. */
  readonly position: number
  /**
   * Packed positions of the entries that created the attachments of the item, by `mapKey` of their names in hexadecimal
   * digits: an erased name must not stay in a map.
   */
  readonly attachments: ReadonlyMap<string, number>
}

export interface DatabaseState {
  /** Packed position of the entry that created the database. */
  readonly position: number
  /** Root of the map of the items. */
  readonly items: Uint8Array
}

/** Formats the value of an item's leaf: `{"attachments":{"<64 hex digits>":"8.0"},"position":"7.0"}`. */
export function formatItemState({ position, attachments }: ItemState): string {
  const at = `"position":"${positionText(position)}"`
  if (attachments.size === 0) return `{${at}}`
  const texts = [...attachments].map(([name, created]) => `"${name}":"${positionText(created)}"`)
  return `{"attachments":{${texts.sort().join()}},${at}}`
}

/** Parses what `formatItemState` returns; otherwise null. */
export function parseItemState(text: string): ItemState | null {
  const { attachments = {}, position, ...others } = parsedObject(text)
  if (!isJsonObject(attachments) || Object.keys(others).length > 0) return null
  const packed = toPosition(position)
  const named = new Map<string, number>()
  for (const [name, value] of Object.entries(attachments)) {
    named.set(name, /^[0-9a-f]{64}$/.test(name) ? (toPosition(value) ?? -1) : -1)
  }
  if (packed === null || [...named.values()].includes(-1)) return null
  const state = { position: packed, attachments: named }
  return formatItemState(state) === text ? state : null
}

/** Formats the value of a database's leaf: `{"items":"<64 hex digits>","position":"0.0"}`. */
export function formatDatabaseState({ position, items }: DatabaseState): string {
  return `{"items":"${toHex(items)}","position":"${positionText(position)}"}`
}

/** Parses what `formatDatabaseState` returns; otherwise null. */
export function parseDatabaseState(text: string): DatabaseState | null {
  const [, items = '', position = ''] =
    /^\{"items":"([0-9a-f]{64})","position":"([0-9.]+)"\}$/.exec(text) ?? []
  const packed = parsePosition(position)
  return packed === null ? null : { position: packed, items: fromHex(items) }
}

function toPosition(value: Json | undefined): number | null {
  return typeof value === 'string' ? parsePosition(value) : null
}

function parsedObject(text: string): Record<string, Json> {
  try {
    const value = parseJson(text)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}

/** The state after the first `size` blocks of a log. */
export interface SignedState {
  readonly size: number
  /** Root of the map of the databases. */
  readonly root: Uint8Array
  /** Root of the log of these blocks. */
  readonly log: Uint8Array
}

/** Returns the first line of a signed state: not the origin of the log, so that it is no checkpoint of the log. */
export function stateOrigin(key: Pick<VerifierKey, 'name'>): string {
  return `${key.name}/state`
}

/** Returns the signed text: origin, size, root of the state, root of the log, one line each. */
export function stateText(
  key: Pick<VerifierKey, 'name'>,
  { size, root, log }: SignedState,
): string {
  return `${stateOrigin(key)}\n${size}\n${toBase64(root)}\n${toBase64(log)}\n`
}

/** Parses the text of a signed state of the log of `key`. Errors: CHECKPOINT_MALFORMED, CHECKPOINT_FOREIGN. */
export function parseState(key: Pick<VerifierKey, 'name'>, text: string): SignedState {
  const { origin, size, root } = parseCheckpoint(text)
  if (origin !== stateOrigin(key)) {
    throw new ProofError(
      'CHECKPOINT_FOREIGN',
      `the signed state belongs to ${origin}, not to ${stateOrigin(key)}`,
    )
  }
  const log = fromBase64(text.split('\n')[3] ?? '')
  if (log?.length === HASH_BYTES) {
    const state = { size, root, log }
    if (stateText(key, state) === text) return state
  }
  throw new ProofError('CHECKPOINT_MALFORMED', 'the note is not a signed state')
}

/** Returns the state in `note`, which `key` must have signed. Errors: NOTE_…, CHECKPOINT_…. */
export async function openState(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<SignedState> {
  return parseState(key, await openNote(verifySignature, key, note))
}

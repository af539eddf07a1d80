import { fromBase64, toBase64 } from '../../base/base64.ts'
import { parsePosition, positionText } from '../entry.ts'
import { fromHex, HASH_BYTES, toHex } from '../hashes.ts'
import {
  type Checkpoint,
  openCheckpoint,
  openNote,
  ProofError,
  parseCheckpoint,
  unverifiedText,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'

// The current state of a chain: a map with a leaf for each database, by its name, and a map for each database with a leaf
// for each item, by its id. `state-map.ts` defines their roots. The value of a leaf is canonical JSON.

/** The current revision of an item. */
export interface ItemState {
  /** Packed position of the newest entry that created or changed the item. */
  readonly position: number
  /**
   * Packed position of the newest entry that created or deleted an attachment of the item, since the item was created;
   * null if there is none. Not the attachments by name, because an erased entry has no name.
   */
  readonly attachments: number | null
}

export interface DatabaseState {
  /** Packed position of the entry that created the database. */
  readonly position: number
  /** Root of the map of the items. */
  readonly items: Uint8Array
}

/** Formats the value of an item's leaf: `{"attachments":"8.0","position":"7.0"}`. */
export function formatItemState({ position, attachments }: ItemState): string {
  const newest = attachments === null ? '' : `"attachments":"${positionText(attachments)}",`
  return `{${newest}"position":"${positionText(position)}"}`
}

/** Parses what `formatItemState` returns; otherwise null. */
export function parseItemState(text: string): ItemState | null {
  const [, newest, at = ''] =
    /^\{(?:"attachments":"([0-9.]+)",)?"position":"([0-9.]+)"\}$/.exec(text) ?? []
  const position = parsePosition(at)
  const attachments = newest === undefined ? null : parsePosition(newest)
  if (position === null || (newest !== undefined && attachments === null)) return null
  return { position, attachments }
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

/** The state after the first `size` blocks of a log. */
export interface SignedState {
  readonly size: number
  /** Root of the map of the databases. */
  readonly root: Uint8Array
  /** Root of the log of these blocks. */
  readonly log: Uint8Array
}

/** Returns the first line of a signed state. It differs from the origin of the log, so no state is a checkpoint. */
function stateOrigin(key: Pick<VerifierKey, 'name'>): string {
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
function parseState(key: Pick<VerifierKey, 'name'>, text: string): SignedState {
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

/** Returns the state in a note whose signature is not verified. Errors: as for `parseState`. */
export function parseStateNote(key: Pick<VerifierKey, 'name'>, note: string): SignedState {
  return parseState(key, note.slice(0, note.indexOf('\n\n') + 1))
}

/** Returns the state in `note`, which `key` must have signed. Errors: NOTE_…, CHECKPOINT_…. */
export async function openState(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<SignedState> {
  return parseState(key, await openNote(verifySignature, key, note))
}

/** Opens a signed checkpoint, or the log that a signed state names. Errors: NOTE_…, CHECKPOINT_…. */
export async function openHead(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<Checkpoint> {
  if (!unverifiedText(note).startsWith(`${stateOrigin(key)}\n`)) {
    return openCheckpoint(verifySignature, key, note)
  }
  const { size, log } = await openState(verifySignature, key, note)
  return { origin: key.name, size, root: log }
}

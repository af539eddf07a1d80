import { fromBase64, toBase64 } from '../../base/base64.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { packPosition, positionText } from '../entry.ts'
import { fromHex, HASH_BYTES, toHex } from '../hashes.ts'
import { ProofError, type VerifierKey, type VerifySignature } from './checkpoint.ts'
import {
  extractNote,
  type OpenedEntry,
  type Opening,
  openEntry,
  openingText,
  requireBlock,
} from './proof-file.ts'
import { HASHES_MAX, type Hashes } from './proofs.ts'
import {
  type ItemState,
  openState,
  parseDatabaseState,
  parseItemState,
  type SignedState,
} from './state.ts'
import { type MapProof, mapKey, provenValue } from './state-map.ts'

const FIRST_LINE = 'daicho/state-proof@v1'
/** Maximum characters of a file: an item of the maximum size, with the list of its attachments. */
const FILE_LENGTH_MAX = 32 * 1024 * 1024
/** Maximum hashes beside a path in a map: one for each bit of a key. */
const PATH_MAX = HASH_BYTES * 8

/** The proven state of item `id` of database `db`. */
export interface StateProof {
  readonly db: string
  readonly id: string
  readonly database: MapProof
  /** Null if there is no such database. */
  readonly item: MapProof | null
  /** The newest revision, with the hashes that prove its block for the log; null if there is no such item. */
  readonly revision: { readonly opening: Opening; readonly path: Hashes } | null
  /** The signed state. */
  readonly note: string
}

/** The result of a verified file. */
export interface ProvenState {
  readonly db: string
  readonly id: string
  readonly state: SignedState
  /** `absent-database` if there is no database `db`, and `absent` if the database has no item `id`. */
  readonly kind: 'current' | 'absent' | 'absent-database'
  /** Packed position of the entry that created the database; null if there is none. */
  readonly database: number | null
  /** Null unless `kind` is `current`. */
  readonly revision: ProvenRevision | null
}

export interface ProvenRevision extends ItemState {
  readonly entry: JsonObject
  readonly item: JsonObject
  /** In milliseconds since the Unix epoch. */
  readonly timestamp: number
}

/** Writes a file that proves the newest revision of an item, or that there is none. Extension `.state-proof`. */
export function stateProofText({ db, id, database, item, revision, note }: StateProof): string {
  const body = canonicalJson({
    ...{ database: mapProofJson(database), db, id },
    ...(item === null ? {} : { item: mapProofJson(item) }),
    ...(revision === null ? {} : { log: revision.path.map(toBase64) }),
  })
  const opening = revision === null ? '' : `${openingText(revision.opening)}\n`
  return `${FIRST_LINE}\n${body}\n${opening}\n${note}`
}

export function mapProofJson({ path, leaf }: MapProof): JsonObject {
  const found = leaf === null ? {} : { key: toHex(leaf.key), value: leaf.value }
  return { path: path.map(toBase64), ...found }
}

/**
 * Verifies a file with only the public key of the log: `key` has signed the state, the state has the newest position of
 * the item or none, and the log of the state has the entry at this position.
 * Errors: PROOF_MALFORMED, PROOF_WRONG, NOTE_…, CHECKPOINT_….
 */
export async function verifyStateProof(
  verifySignature: VerifySignature,
  key: VerifierKey,
  file: string,
): Promise<ProvenState> {
  const { body, opening } = parseFile(file)
  const { db, id, item: itemJson } = body
  if (typeof db !== 'string' || typeof id !== 'string') throw malformed('it names no item')
  const state = await openState(verifySignature, key, extractNote(file))
  const absent = (isEnd: boolean, created: number | null): ProvenState => {
    if (!isEnd) throw malformed('it has more than it proves')
    const kind = created === null ? 'absent-database' : 'absent'
    return { db, id, state, kind, database: created, revision: null }
  }
  const value = valueAt(db, state.root, body.database, 'the database')
  const isBare = opening === null && body.log === undefined
  if (value === null) return absent(itemJson === undefined && isBare, null)
  const database = parseDatabaseState(value)
  if (database === null) throw malformed('the state of the database is malformed')
  const itemValue = valueAt(id, database.items, itemJson, 'the item')
  if (itemValue === null) return absent(isBare, database.position)
  const item = parseItemState(itemValue)
  if (item === null || opening === null) throw malformed('the state of the item is malformed')
  const opened = openEntry(opening)
  requireBlock(opened, { size: state.size, root: state.log }, parsePath(body.log, HASHES_MAX))
  const revision = toRevision(opened, item, { db, id })
  return { db, id, state, kind: 'current', database: database.position, revision }
}

/** Returns the value of `name` in the map of `root`, or null if it has none. Errors: PROOF_WRONG, PROOF_MALFORMED. */
export function valueAt(
  name: string,
  root: Uint8Array,
  json: Json | undefined,
  what: string,
): string | null {
  const value = provenValue(mapKey(name), root, parseMapProof(json))
  if (value !== undefined) return value
  throw new ProofError(
    'PROOF_WRONG',
    `the hashes of ${what} do not give the root of the signed state`,
  )
}

function toRevision(
  { entry, timestamp, height, position: index }: OpenedEntry,
  item: ItemState,
  { db, id }: { readonly db: string; readonly id: string },
): ProvenRevision {
  if (entry === null || timestamp === null) {
    throw new ProofError('ITEM_ERASED', 'the newest revision was erased')
  }
  const position = packPosition(height, index)
  if (position !== item.position) {
    throw new ProofError(
      'PROOF_WRONG',
      `the newest revision is at ${positionText(item.position)}, but the entry is at ${positionText(position)}`,
    )
  }
  const { item: whole } = entry
  if (entry.db !== db || !isJsonObject(whole) || whole.id !== id) {
    throw new ProofError('ITEM_OTHER', `the entry is not a revision of item ${id} of ${db}`)
  }
  return { ...item, entry, item: whole, timestamp }
}

function parseFile(file: string): { readonly body: JsonObject; readonly opening: string | null } {
  const end = file.length > FILE_LENGTH_MAX ? -1 : file.indexOf('\n\n')
  const [first, second = '', opening, ...others] = file.slice(0, end).split('\n', 5)
  const body = end === -1 ? null : parseForeignJsonOrNull(second)
  const isFile = first === FIRST_LINE && others.length === 0 && isJsonObject(body)
  if (!isFile) throw malformed('it does not have the lines of a state proof')
  const { database, db, id, item, log, ...unknown } = body
  if (Object.keys(unknown).length > 0 || canonicalOrNull(body) !== second) {
    throw malformed('its second line is not canonical')
  }
  return { body, opening: opening ?? null }
}

export function canonicalOrNull(value: Json): string | null {
  try {
    return canonicalJson(value)
  } catch {
    return null
  }
}

function parseMapProof(json: Json | undefined): MapProof {
  if (!isJsonObject(json)) throw malformed('it lacks the path of a map')
  const { key, value, path, ...others } = json
  if (Object.keys(others).length > 0) throw malformed('the path of a map is malformed')
  const hashes = parsePath(path, PATH_MAX)
  if (key === undefined && value === undefined) return { path: hashes, leaf: null }
  if (typeof key !== 'string' || !/^[0-9a-f]{64}$/.test(key) || typeof value !== 'string') {
    throw malformed('the leaf of a map is malformed')
  }
  return { path: hashes, leaf: { key: fromHex(key), value } }
}

function parsePath(json: Json | undefined, max: number): Hashes {
  if (!Array.isArray(json) || json.length > max) throw malformed('a path is malformed')
  return json.map((text) => {
    const hash = typeof text === 'string' ? fromBase64(text) : null
    if (hash?.length === HASH_BYTES) return hash
    throw malformed('a hash is malformed')
  })
}

function malformed(what: string): ProofError {
  return new ProofError('PROOF_MALFORMED', `this is not a state proof: ${what}`)
}

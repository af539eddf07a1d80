import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { equalBytes } from '../hashes.ts'
import { ProofError, type VerifierKey, type VerifySignature } from './checkpoint.ts'
import {
  type ItemState,
  openState,
  parseDatabaseState,
  parseItemState,
  type SignedState,
} from './state.ts'
import { leafSubtree, type MapLeaf, type MapProof, mapKey, subtreeOfLeaves } from './state-map.ts'
import { canonicalOrNull, mapProofJson, valueAt } from './state-proof.ts'

const FIRST_LINE = 'daicho/state-list@v1'
/** Maximum characters of the signed state. */
const NOTE_LENGTH_MAX = 65_536

/** The list of all items of a database in a signed state. */
export interface ProvenList {
  readonly db: string
  readonly state: SignedState
  /** Packed position of the entry that created the database; null if there is none. */
  readonly database: number | null
  /** In the order of the file, which is not proven; null if there is no such database. */
  readonly items: readonly StateListItem[] | null
}

export interface StateListItem extends ItemState {
  readonly id: string
}

/** Writes the first lines of a file that proves all ids of a database. Extension `.state-list`. */
export function stateListHead(db: string, database: MapProof): string {
  return `${FIRST_LINE}\n${canonicalJson({ database: mapProofJson(database), db })}\n`
}

/** Writes the line of an item from the value of its leaf, whose last member is its position. */
export function stateListLine(id: string, value: string): string {
  const at = value.lastIndexOf('"position"')
  return `${value.slice(0, at)}"id":${canonicalJson(id)},${value.slice(at)}\n`
}

/** Writes the end of the file. */
export function stateListEnd(note: string): string {
  return `\n${note}`
}

/**
 * Verifies a file, given as the texts between its line feeds, with only the public key of the log: the ids and positions give the root of the
 * items of the database in the state that `key` has signed. So no item is missing, and none is added.
 * Errors: PROOF_MALFORMED, PROOF_WRONG, NOTE_…, CHECKPOINT_….
 */
export async function verifyStateList(
  verifySignature: VerifySignature,
  key: VerifierKey,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<ProvenList> {
  const { head, items, note } = await readLines(lines)
  const { db, database: json, ...others } = parseCanonical(head)
  if (typeof db !== 'string' || Object.keys(others).length > 0)
    throw malformed('it names no database')
  const state = await openState(verifySignature, key, note)
  const value = valueAt(db, state.root, json, 'the database')
  if (value === null) {
    if (items.length > 0) throw malformed('it has items, but there is no such database')
    return { db, state, database: null, items: null }
  }
  const database = parseDatabaseState(value)
  if (database === null) throw malformed('the state of the database is malformed')
  const leaves = items
    .map(({ leaf }) => leaf)
    .sort((one, other) => compareBytes(one.key, other.key))
  const twice = leaves.findIndex((leaf, at) => equalBytes(leaf.key, leaves[at - 1]?.key ?? NO_KEY))
  if (twice >= 0) throw new ProofError('PROOF_WRONG', 'the list has an item twice')
  if (!equalBytes(subtreeOfLeaves(leaves, 0).hash, database.items)) {
    const what = `the list of ${items.length} items is not the one of the signed state: an item is missing, added or changed`
    throw new ProofError('PROOF_WRONG', what)
  }
  return { db, state, database: database.position, items: items.map(({ item }) => item) }
}

const NO_KEY = new Uint8Array()

interface ListLine {
  readonly item: StateListItem
  readonly leaf: MapLeaf
}

async function readLines(lines: AsyncIterable<string> | Iterable<string>) {
  const items: ListLine[] = []
  let at = 0
  let head = ''
  let note: string[] | null = null
  let noteLength = 0
  for await (const line of lines) {
    if (at === 0 && line !== FIRST_LINE) throw malformed(`its first line is not ${FIRST_LINE}`)
    if (at === 1) head = line
    else if (at > 1 && note !== null) note.push(line)
    else if (at > 1 && line === '') note = []
    else if (at > 1) items.push(parseLine(line))
    at += 1
    if (note !== null) noteLength += line.length + 1
    if (noteLength > NOTE_LENGTH_MAX) throw malformed('its note is too long')
  }
  if (note === null) throw malformed('it is incomplete')
  return { head, items, note: note.join('\n') }
}

function parseLine(line: string): ListLine {
  const { id, ...rest } = parseCanonical(line)
  const value = canonicalJson(rest)
  const state = parseItemState(value)
  if (typeof id !== 'string' || state === null) throw malformed('a line is not an item')
  const key = mapKey(id)
  return { item: { id, ...state }, leaf: { key, subtree: leafSubtree(key, value) } }
}

function parseCanonical(line: string): JsonObject {
  const value = parseForeignJsonOrNull(line)
  if (isJsonObject(value) && canonicalOrNull(value) === line) return value
  throw malformed('a line is not canonical')
}

function compareBytes(one: Uint8Array, other: Uint8Array): number {
  for (const [at, byte] of one.entries()) {
    const difference = byte - (other[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

function malformed(what: string): ProofError {
  return new ProofError('PROOF_MALFORMED', `this is not a list of a state: ${what}`)
}

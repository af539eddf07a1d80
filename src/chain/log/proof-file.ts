import { fromBase64, toBase64 } from '../../base/base64.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject, parseJson } from '../../base/json.ts'
import { type Checkpoint, logOrigin, openCheckpoint } from './checkpoint.ts'
import { ProofError } from './errors.ts'
import { HASH_BYTES, hmacSha256, leafHash, type Sha256 } from './hashes.ts'
import type { Crypto, VerifierKey } from './note.ts'
import { type Hashes, verifyInclusion } from './proofs.ts'

const FIRST_LINE = 'c2sp.org/tlog-proof@v1'
/** Deeper than the log of any size that an integer counts. */
const PATH_LENGTH_MAX = 63
/** Longest proof file that is looked at: an item of the largest size, in base64, and some room. */
const FILE_LENGTH_MAX = 32 * 1024 * 1024

/** Where an entry stands in its block, and the hashes from its commitment to the root of the block. */
interface Place {
  /** Canonical text of the block's header, the leaf of the log. */
  readonly header: string
  /** How many entries the block holds. */
  readonly count: number
  /** The index of the entry. */
  readonly position: number
  readonly path: Hashes
}

/** What opens the commitment of one entry: nobody without it learns anything of the entry. */
export type Opening = Place & {
  readonly entry: string
  readonly timestamp: number
  readonly blind: Uint8Array
}

/** What is left to show of an entry that was erased. */
export type ErasedOpening = Place & { readonly commitment: Uint8Array }

/** A proof of one entry, ready to be written. */
export interface EntryProof {
  readonly opening: Opening | ErasedOpening
  /** The height of the block: the index of its header in the log. */
  readonly height: number
  readonly path: Hashes
  /** The signed note. */
  readonly checkpoint: string
}

/** What a proof file has shown: under `checkpoint` stands this entry at this place. */
export interface ProvenEntry {
  readonly serverId: number
  readonly height: number
  /** The index of the entry in its block. */
  readonly index: number
  /** Null when it was erased: then only its commitment is proven. */
  readonly entry: JsonObject | null
  /** Milliseconds since the Unix epoch; null when it was erased. */
  readonly timestamp: number | null
  readonly checkpoint: Checkpoint
}

/** The proof as a file (C2SP tlog-proof, extension `.tlog-proof`). */
export function proofFileText({ opening, height, path, checkpoint }: EntryProof): string {
  const lines = [
    FIRST_LINE,
    `extra ${toBase64(new TextEncoder().encode(openingText(opening)))}`,
    `index ${height}`,
    ...path.map(toBase64),
  ]
  return `${lines.join('\n')}\n\n${checkpoint}`
}

/** Canonical JSON; entry and header are canonical texts already. */
function openingText(opening: Opening | ErasedOpening): string {
  const { header, count, position } = opening
  const path = JSON.stringify(opening.path.map(toHex))
  if ('commitment' in opening) {
    return `{"commitment":"${toHex(opening.commitment)}","count":${count},"header":${header},"path":${path},"position":${position}}`
  }
  const { blind, entry, timestamp } = opening
  return `{"blind":"${toHex(blind)}","count":${count},"entry":${entry},"header":${header},"path":${path},"position":${position},"timestamp":${timestamp}}`
}

/**
 * Checks a proof file with nothing but the public key of the log: the entry opens its commitment, that
 * leads to the root in the block's header, the header to the root of the checkpoint, and the key has
 * signed it.
 *
 * Errors: PROOF_MALFORMED, PROOF_WRONG, NOTE_…, CHECKPOINT_….
 */
export async function verifyProofFile(
  crypto: Crypto,
  key: VerifierKey,
  file: string,
): Promise<ProvenEntry> {
  const { extra, height, path, note } = parseFile(file)
  const opened = openingOf(extra)
  const { sha256 } = crypto

  const commitment = commitmentOf(sha256, opened)
  const block = { size: opened.count, root: opened.root }
  const leaf = { index: opened.position, leaf: leafHash(sha256, commitment) }
  if (!verifyInclusion(sha256, leaf, block, opened.path)) {
    throw new ProofError('PROOF_WRONG', 'the entry does not lead to the root of its block')
  }
  if (opened.height !== height) {
    throw new ProofError('PROOF_WRONG', 'the index is not the height of the block')
  }
  const checkpoint = await openCheckpoint(crypto, key, note)
  if (checkpoint.origin !== logOrigin(opened.serverId)) {
    throw new ProofError('PROOF_WRONG', 'the block is of another chain than the checkpoint')
  }
  const header = { index: height, leaf: leafHash(sha256, utf8(opened.header)) }
  if (!verifyInclusion(sha256, header, checkpoint, path)) {
    throw new ProofError('PROOF_WRONG', 'the block does not lead to the root of the checkpoint')
  }
  const { serverId, position: index } = opened
  const { entry = null, timestamp = null } = 'entry' in opened ? opened : {}
  return { serverId, height, index, entry, timestamp, checkpoint }
}

/** The signed note at the end of a proof file. */
export function noteOf(file: string): string {
  return file.slice(file.indexOf('\n\n') + 2)
}

function parseFile(file: string): { extra: string; height: number; path: Hashes; note: string } {
  const end = file.indexOf('\n\n')
  const lines = file.slice(0, end).split('\n')
  const [first, second = '', third = '', ...hashes] = lines
  const [, encoded = ''] = /^extra (\S+)$/.exec(second) ?? []
  const [, index = ''] = /^index (0|[1-9]\d{0,15})$/.exec(third) ?? []
  const extra = fromBase64(encoded)
  const path = hashes.map(fromBase64).filter((hash) => hash?.length === HASH_BYTES)
  const isFile =
    file.length <= FILE_LENGTH_MAX &&
    end !== -1 &&
    first === FIRST_LINE &&
    extra !== null &&
    index !== '' &&
    Number.isSafeInteger(Number(index)) &&
    hashes.length <= PATH_LENGTH_MAX
  if (!isFile || path.length !== hashes.length) throw malformed('this is not a proof file')
  return {
    extra: fromUtf8(extra),
    height: Number(index),
    path: path.filter((hash) => hash !== null),
    note: noteOf(file),
  }
}

type Opened = Place & {
  readonly root: Uint8Array
  readonly height: number
  readonly serverId: number
} & (
    | {
        readonly entry: JsonObject
        readonly entryText: string
        readonly timestamp: number
        readonly blind: Uint8Array
      }
    | { readonly commitment: Uint8Array }
  )

const OPEN = ['blind', 'count', 'entry', 'header', 'path', 'position', 'timestamp']
const ERASED = ['commitment', 'count', 'header', 'path', 'position']
const HEADER = ['count', 'height', 'nonce', 'prev_id', 'root', 'serverid', 'version']

/** Reads `extra`, which is canonical and has exactly its members. */
function openingOf(text: string): Opened {
  const opening = parsedObject(text)
  const names = Object.keys(opening).join()
  if (canonical(opening) !== text || (names !== OPEN.join() && names !== ERASED.join())) {
    throw malformed('what opens the commitment is malformed')
  }
  const header = objectOf(opening.header)
  if (Object.keys(header).join() !== HEADER.join() || header.version !== 1) {
    throw malformed('the header is not that of a block')
  }
  const count = countOf(opening.count)
  const position = countOf(opening.position)
  if (header.count !== count || position >= count) throw malformed('there is no such entry')
  const { path } = opening
  if (!Array.isArray(path)) throw malformed('the path is malformed')
  const place = {
    header: canonical(header),
    count,
    position,
    path: path.map(hashOf),
    root: hashOf(header.root),
    height: countOf(header.height),
    serverId: countOf(header.serverid),
  }
  if (names === ERASED.join()) return { ...place, commitment: hashOf(opening.commitment) }
  const entry = objectOf(opening.entry)
  if (entry.serverid !== header.serverid) throw malformed('the entry is of another chain')
  return {
    ...place,
    entry,
    entryText: canonical(entry),
    timestamp: countOf(opening.timestamp),
    blind: hashOf(opening.blind),
  }
}

function commitmentOf(sha256: Sha256, opened: Opened): Uint8Array {
  if ('commitment' in opened) return opened.commitment
  const message = `{"entry":${opened.entryText},"timestamp":${opened.timestamp}}`
  return hmacSha256(sha256, opened.blind, utf8(message))
}

function parsedObject(text: string): JsonObject {
  try {
    const value: Json = parseJson(text)
    return objectOf(value)
  } catch (error) {
    if (error instanceof ProofError) throw error
    throw malformed('what opens the commitment is not JSON')
  }
}

function canonical(value: Json): string {
  try {
    return canonicalJson(value)
  } catch {
    throw malformed('what opens the commitment has no canonical form')
  }
}

function objectOf(value: Json | undefined): JsonObject {
  if (isJsonObject(value)) return value
  throw malformed('what opens the commitment lacks an object')
}

function countOf(value: Json | undefined): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw malformed('what opens the commitment lacks a number')
}

function hashOf(value: Json | undefined): Uint8Array {
  if (typeof value !== 'string' || !/^[0-9a-f]{64}$/.test(value))
    throw malformed('a hash is malformed')
  return Uint8Array.from(value.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))
}

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function fromUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw malformed('what opens the commitment is not UTF-8')
  }
}

function malformed(what: string): ProofError {
  return new ProofError('PROOF_MALFORMED', what)
}

import { fromBase64, toBase64 } from '../../base/base64.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import { isCount, isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseForeignJson } from '../../base/strict-json.ts'
import { parseHeader } from '../block.ts'
import { decodeEntry, hasContent } from '../entry.ts'
import { fromHex, HASH_BYTES, HmacSha256, toHex } from '../hashes.ts'
import { leafHash } from '../merkle-tree.ts'
import {
  type Checkpoint,
  logOrigin,
  ProofError,
  type VerifierKey,
  type VerifySignature,
} from './checkpoint.ts'
import { type CosignedCheckpoint, openCosigned, type WitnessPolicy } from './cosignatures.ts'
import { HASHES_MAX, type Hashes, verifyInclusion } from './proofs.ts'

const FIRST_LINE = 'c2sp.org/tlog-proof@v1'
/** Maximum characters of a proof file: an item of the maximum size in base64, plus all other parts. */
const FILE_LENGTH_MAX = 32 * 1024 * 1024

/** Position of an entry in its block, and the hashes from its commitment to the root of the block. */
interface InclusionInBlock {
  /** Canonical text of the block header, which is the leaf of the log. */
  readonly header: string
  /** Number of entries in the block. */
  readonly count: number
  readonly position: number
  readonly path: Hashes
}

/** Reveals the entry behind a commitment; the commitment alone reveals nothing. */
export type Opening = InclusionInBlock & {
  readonly entry: string
  readonly timestamp: number
  readonly blind: Uint8Array
}

/** The part of an opening that is left after erasure. */
export type ErasedOpening = InclusionInBlock & { readonly commitment: Uint8Array }

/** The content of a proof file. */
export interface EntryProof {
  readonly opening: Opening | ErasedOpening
  /** Height of the block, which is the index of its header in the log. */
  readonly height: number
  readonly path: Hashes
  /** The signed note. */
  readonly checkpoint: string
}

/** The result of a verified proof file: the entry and its position in the log of `checkpoint`. */
export interface ProvenEntry {
  readonly serverId: number
  readonly height: number
  /** Index of the entry in its block. */
  readonly index: number
  /** Null if the entry was erased, because then only its commitment is proven. */
  readonly entry: JsonObject | null
  /** In milliseconds since the Unix epoch; null if the entry was erased. */
  readonly timestamp: number | null
  readonly checkpoint: CosignedCheckpoint
}

/** Writes a proof file (C2SP tlog-proof, extension `.tlog-proof`). */
export function proofFileText({ opening, height, path, checkpoint }: EntryProof): string {
  const extra = toBase64(new TextEncoder().encode(openingText(opening)))
  const lines = [`index ${height}`, ...path.map(toBase64)].join('\n')
  // Not joined with the others, because the opening may have 10 MB.
  return `${FIRST_LINE}\nextra ${extra}\n${lines}\n\n${checkpoint}`
}

/** Returns an opening as canonical JSON. Its entry and its header are canonical texts already. */
export function openingText(opening: Opening | ErasedOpening): string {
  const { header, count, position } = opening
  const path = JSON.stringify(opening.path.map(toHex))
  if ('commitment' in opening) {
    const commitment = toHex(opening.commitment)
    return `{"commitment":"${commitment}","count":${count},"header":${header},"path":${path},"position":${position}}`
  }
  const { entry, timestamp } = opening
  const blind = toHex(opening.blind)
  return `{"blind":"${blind}","count":${count},"entry":${entry},"header":${header},"path":${path},"position":${position},"timestamp":${timestamp}}`
}

/**
 * Verifies a proof file with only the public key of the log. The entry must open its commitment, the commitment must be
 * under the root in the block header, the header must be under the root of the checkpoint, and the key must have signed
 * the checkpoint. With a policy, enough witnesses must have cosigned the checkpoint. Errors: PROOF_MALFORMED,
 * PROOF_WRONG, NOTE_…, CHECKPOINT_…, QUORUM_MISSED.
 */
export async function verifyProofFile(
  verifySignature: VerifySignature,
  key: VerifierKey,
  file: string,
  policy: WitnessPolicy | null = null,
): Promise<ProvenEntry> {
  const { extra, height, path, note } = parseFile(file)
  const opened = openEntry(extra)
  if (opened.height !== height) {
    throw new ProofError('PROOF_WRONG', 'the index is not the height of the block')
  }
  const checkpoint = await openCosigned(verifySignature, { key, policy }, note)
  const { serverId, position: index, entry, timestamp } = opened
  if (checkpoint.origin !== logOrigin(serverId)) {
    throw new ProofError('PROOF_WRONG', 'the block belongs to another chain than the checkpoint')
  }
  requireBlock(opened, checkpoint, path)
  return { serverId, height, index, entry, timestamp, checkpoint }
}

/** Parses an opening, whose entry must be under the root of its block. Errors: PROOF_MALFORMED, PROOF_WRONG. */
export function openEntry(opening: string): OpenedEntry {
  const opened = parseOpening(opening)
  const block = { size: opened.count, root: opened.root }
  const leaf = { index: opened.position, leaf: leafHash(opened.commitment) }
  if (verifyInclusion(leaf, block, opened.path)) return opened
  throw new ProofError('PROOF_WRONG', 'the entry does not match the root of its block')
}

/** Requires that `path` proves the block of `opened` for the log. Errors: PROOF_WRONG. */
export function requireBlock(
  { height, header }: OpenedEntry,
  log: Pick<Checkpoint, 'size' | 'root'>,
  path: Hashes,
): void {
  const leaf = { index: height, leaf: leafHash(new TextEncoder().encode(header)) }
  if (verifyInclusion(leaf, log, path)) return
  throw new ProofError('PROOF_WRONG', 'the block does not match the root of the checkpoint')
}

/** The signed note at the end of a proof file. */
export function extractNote(file: string): string {
  return file.slice(file.indexOf('\n\n') + 2)
}

function parseFile(file: string): { extra: string; height: number; path: Hashes; note: string } {
  if (file.length > FILE_LENGTH_MAX) throw malformed('the proof file is too long')
  const end = file.indexOf('\n\n')
  const lines = file.slice(0, end).split('\n', 4 + HASHES_MAX)
  const [first, second = '', third = '', ...hashes] = lines
  const [, encoded = ''] = /^extra (\S+)$/.exec(second) ?? []
  const [, index = ''] = /^index (0|[1-9]\d{0,15})$/.exec(third) ?? []
  const extra = fromBase64(encoded)
  const path = hashes.map(fromBase64).filter((hash) => hash !== null)
  const isFile =
    end !== -1 &&
    first === FIRST_LINE &&
    extra !== null &&
    index !== '' &&
    Number.isSafeInteger(Number(index)) &&
    hashes.length <= HASHES_MAX &&
    path.length === hashes.length &&
    path.every((hash) => hash.length === HASH_BYTES)
  if (!isFile) throw malformed('this is not a proof file')
  return { extra: fromUtf8(extra), height: Number(index), path, note: extractNote(file) }
}

export interface OpenedEntry extends InclusionInBlock {
  readonly root: Uint8Array
  readonly height: number
  readonly serverId: number
  readonly commitment: Uint8Array
  /** Null if the entry was erased. */
  readonly entry: JsonObject | null
  readonly timestamp: number | null
}

const OPEN = 'blind,count,entry,header,path,position,timestamp'
const ERASED = 'commitment,count,header,path,position'

/** Parses `extra`, which must be canonical and have exactly the expected members. */
function parseOpening(text: string): OpenedEntry {
  const opening = requireObject(parsedExtra(text))
  const names = Object.keys(opening).join()
  if (canonical(opening) !== text || (names !== OPEN && names !== ERASED)) {
    throw malformed('the opening of the commitment is malformed')
  }
  const headerText = canonical(requireObject(opening.header))
  const header = parseHeader(headerText)
  if (header === null) throw malformed('the header is not a block header')
  const count = requireCount(opening.count)
  const position = requireCount(opening.position)
  if (header.count !== count || position >= count) throw malformed('there is no such entry')
  const { path } = opening
  if (!Array.isArray(path)) throw malformed('the path is malformed')
  const inclusion = {
    header: headerText,
    count,
    position,
    path: path.map(requireHash),
    root: fromHex(header.root),
    height: header.height,
    serverId: header.serverId,
  }
  if (names === ERASED) {
    const commitment = requireHash(opening.commitment)
    return { ...inclusion, commitment, entry: null, timestamp: null }
  }
  const entry = requireObject(opening.entry)
  if (entry.serverid !== header.serverId) throw malformed('the entry belongs to another chain')
  const known = decodeEntry(entry)
  if (known === null || !hasContent(known)) throw malformed('it is not an entry of a chain')
  const timestamp = requireCount(opening.timestamp)
  const message = `{"entry":${canonical(entry)},"timestamp":${timestamp}}`
  const commitment = new HmacSha256().digest(requireHash(opening.blind), message)
  return { ...inclusion, commitment, entry, timestamp }
}

function parsedExtra(text: string): Json {
  try {
    return parseForeignJson(text)
  } catch {
    throw malformed('the opening of the commitment is not JSON')
  }
}

function canonical(value: Json): string {
  try {
    return canonicalJson(value)
  } catch {
    throw malformed('the opening of the commitment has no canonical form')
  }
}

function requireObject(value: Json | undefined): JsonObject {
  if (isJsonObject(value)) return value
  throw malformed('the opening of the commitment lacks an object')
}

function requireCount(value: Json | undefined): number {
  if (isCount(value)) return value
  throw malformed('the opening of the commitment lacks a number')
}

function requireHash(value: Json | undefined): Uint8Array {
  if (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)) return fromHex(value)
  throw malformed('a hash is malformed')
}

function fromUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw malformed('the opening of the commitment is not UTF-8')
  }
}

function malformed(message: string): ProofError {
  return new ProofError('PROOF_MALFORMED', message)
}

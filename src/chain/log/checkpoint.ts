import { fromBase64, toBase64 } from '../../base/base64.ts'
import { CodedError } from '../../base/coded-error.ts'
import { equalBytes, fromHex, HASH_BYTES, joined, sha256, toHex } from '../hashes.ts'

/** Reason why a note, a checkpoint, a proof or a log is rejected. */
export type ProofErrorCode =
  | 'NOTE_MALFORMED' // not a signed note, or not a verifier key
  | 'NOTE_UNSIGNED' // no signature by a known key
  | 'NOTE_FORGED' // a wrong signature by a known key
  | 'SIGNATURES_UNSUPPORTED' // the runtime cannot verify signatures of this algorithm
  | 'CHECKPOINT_MALFORMED' // signed, but not a checkpoint
  | 'CHECKPOINT_FOREIGN' // the checkpoint of another log
  | 'POLICY_MALFORMED' // not a policy about witnesses
  | 'QUORUM_MISSED' // too few witnesses have cosigned the checkpoint
  | 'PROOF_MALFORMED' // not a proof file
  | 'PROOF_WRONG' // the hashes computed from the entry do not give the root of the checkpoint
  | 'LOG_ROLLED_BACK' // the checkpoint has fewer blocks than a checkpoint received before
  | 'LOG_FORKED' // two checkpoints that contradict each other
  | 'LOG_BROKEN' // entries, hashes and checkpoint of a log contradict each other
  | 'ITEM_OTHER' // a proof of something other than the requested item
  | 'ITEM_STALE' // the revision is older than a revision received before
  | 'ITEM_ERASED' // an erased revision, which can be neither shown nor proven
  | 'SERVER_FAILED' // no verifiable reply

/** Thrown by all functions that verify notes, checkpoints, proofs and logs. */
export class ProofError extends CodedError<ProofErrorCode> {
  override readonly name = 'ProofError'
}

/**
 * Type bytes of verifier keys and key ids: Ed25519 signatures of notes, Ed25519 cosignatures, ML-DSA-44 cosignatures.
 */
const ED25519 = 0x01
export const COSIGNATURE = 0x04
export const COSIGNATURE_ML_DSA = 0x06
type KeyType = typeof ED25519 | typeof COSIGNATURE | typeof COSIGNATURE_ML_DSA
/** Length in bytes of a raw public key by type. */
const KEY_BYTES: Readonly<Record<KeyType, number>> = {
  [ED25519]: 32,
  [COSIGNATURE]: 32,
  [COSIGNATURE_ML_DSA]: 1_312,
}
const KEY_ID_BYTES = 4
const NOTE_LENGTH_MAX = 65_536
const SIGNATURES_MAX = 64

/** A named public key that signs notes. */
export interface VerifierKey {
  /** Not empty, without spaces and `+`. */
  readonly name: string
  /** A raw Ed25519 key, or the longer raw ML-DSA-44 key of a witness. */
  readonly publicKey: Uint8Array
}

/** Returns the Web Crypto name of the algorithm of a raw public key. */
export function keyAlgorithm(publicKey: Uint8Array): 'Ed25519' | 'ML-DSA-44' {
  return publicKey.length === KEY_BYTES[COSIGNATURE_ML_DSA] ? 'ML-DSA-44' : 'Ed25519'
}

/** The bytes before the raw public key in its DER encoding (RFC 8410, RFC 9881). */
const SPKI_PREFIXES = {
  Ed25519: fromHex('302a300506032b6570032100'),
  'ML-DSA-44': fromHex('30820532300b06096086480165030403110382052100'),
}

/** Encodes a raw public key in DER. */
export function toSpki(publicKey: Uint8Array): Uint8Array {
  return joined(SPKI_PREFIXES[keyAlgorithm(publicKey)], publicKey)
}

/** Verifies `signature` over `message` with the raw key `publicKey`. Asynchronous because of Web Crypto. */
export type VerifySignature = (
  publicKey: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
) => boolean | Promise<boolean>

/** Verifies with Web Crypto. Rejects in old browsers, which lack the algorithm, and on pages without TLS. */
export const webVerifySignature: VerifySignature = async (publicKey, message, signature) => {
  const { subtle } = globalThis.crypto
  const algorithm = keyAlgorithm(publicKey)
  const spki = Uint8Array.from(toSpki(publicKey))
  const key = await subtle.importKey('spki', spki, algorithm, false, ['verify'])
  return subtle.verify(algorithm, key, Uint8Array.from(signature), Uint8Array.from(message))
}

const UTF8 = new TextEncoder()

/** Returns the first four bytes of SHA-256 over name, newline, type and key. */
function keyId({ name, publicKey }: VerifierKey, type: KeyType): Uint8Array {
  const typed = joined(UTF8.encode(`${name}\n`), Uint8Array.of(type), publicKey)
  return sha256(typed).slice(0, KEY_ID_BYTES)
}

/** Formats the key as `<name>+<key id in hex>+<base64 of type and key>` (C2SP signed-note). */
export function verifierKeyText(key: VerifierKey, type: KeyType = ED25519): string {
  const encoded = toBase64(joined(Uint8Array.of(type), key.publicKey))
  return `${key.name}+${toHex(keyId(key, type))}+${encoded}`
}

/** Parses the verifier key of a log. Errors: NOTE_MALFORMED, even for a valid key of another type. */
export function parseVerifierKey(text: string): VerifierKey {
  const key = keyOfType(text, ED25519)
  if (key !== null) return key
  throw new ProofError('NOTE_MALFORMED', 'this is not an Ed25519 verifier key')
}

/** Parses a verifier key; returns null if it is malformed or has another type. */
export function keyOfType(text: string, type: KeyType): VerifierKey | null {
  const [, name = '', , encoded = ''] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? []
  const typed = fromBase64(encoded)
  if (typed?.length !== 1 + KEY_BYTES[type] || typed[0] !== type || !isKeyName(name)) return null
  const key = { name, publicKey: typed.slice(1) }
  return verifierKeyText(key, type) === text ? key : null
}

/**
 * Returns the server id of a node with this public key (raw Ed25519): the first 53 bits of the SHA-256 of the key, an
 * integer that JSON and JavaScript represent exactly. 0 is not used and becomes 1. The id does not replace the key,
 * because a search can find another key with the same 53 bits; so peers pin whole keys. Source: specification, “Ledger
 * entry”, `serverid`; docs/decisions/0001-chain-format.md.
 */
export function serverIdOfRaw(publicKey: Uint8Array): number {
  const digest = sha256(publicKey)
  const first = new DataView(digest.buffer, digest.byteOffset).getBigUint64(0)
  return Number(first >> 11n) || 1
}

/** Signs a note: `text`, which ends in a newline, and one signature line. */
export function signedNote(
  key: VerifierKey,
  text: string,
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const signature = sign(UTF8.encode(text))
  return `${text}\n${signatureLine(key, ED25519, signature)}`
}

/** Formats the line of a signature, which ends in a newline. */
export function signatureLine(key: VerifierKey, type: KeyType, signature: Uint8Array): string {
  return `— ${key.name} ${toBase64(joined(keyId(key, type), signature))}\n`
}

/**
 * Returns the text of `note` if `key` has signed it. Ignores signatures by other keys; an invalid or a second
 * signature by this key is an error. Errors: NOTE_MALFORMED, NOTE_UNSIGNED, NOTE_FORGED. Source: c2sp.org/signed-note.
 */
export async function openNote(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<string> {
  const { text, signatures } = parseNote(note)
  const own = signaturesBy(key, ED25519, signatures)
  if (own.length === 0) {
    throw new ProofError('NOTE_UNSIGNED', `the note is not signed by the key of ${key.name}`)
  }
  const message = UTF8.encode(text)
  for (const signature of own) {
    if (await verifySignature(key.publicKey, message, signature)) continue
    throw new ProofError('NOTE_FORGED', `the signature of ${key.name} is wrong`)
  }
  if (own.length > 1) {
    throw new ProofError('NOTE_MALFORMED', `the note has two signatures by the key of ${key.name}`)
  }
  return text
}

/** Returns the signatures in `lines` by `key`, without the key id. */
export function signaturesBy(
  key: VerifierKey,
  type: KeyType,
  lines: readonly SignatureLine[],
): Uint8Array[] {
  const id = keyId(key, type)
  return lines
    .filter(({ name, bytes }) => {
      return name === key.name && equalBytes(bytes.subarray(0, KEY_ID_BYTES), id)
    })
    .map(({ bytes }) => bytes.subarray(KEY_ID_BYTES))
}

export interface SignatureLine {
  readonly name: string
  /** Key id and signature. */
  readonly bytes: Uint8Array
}

/** Returns the text of `note`, whose signatures are not verified. Errors: NOTE_MALFORMED. */
export function unverifiedText(note: string): string {
  return parseNote(note).text
}

/** Parses a note without verifying it. Errors: NOTE_MALFORMED. */
export function parseNote(note: string): { text: string; signatures: SignatureLine[] } {
  // The text is everything before the last empty line, including the final newline of the text.
  const end = note.lastIndexOf('\n\n') + 1
  const lines = note.slice(end + 1).split('\n')
  const isNote =
    note.length <= NOTE_LENGTH_MAX &&
    end > 0 &&
    lines.pop() === '' &&
    lines.length >= 1 &&
    lines.length <= SIGNATURES_MAX &&
    note.isWellFormed() &&
    !/[\u0000-\u0009\u000b-\u001f\u007f]/.test(note)
  if (!isNote) throw new ProofError('NOTE_MALFORMED', 'this is not a signed note')
  return { text: note.slice(0, end), signatures: lines.map(parseSignature) }
}

function parseSignature(line: string): SignatureLine {
  const [, name = '', encoded = ''] = /^— (\S+) (\S+)$/.exec(line) ?? []
  const bytes = fromBase64(encoded)
  if (isKeyName(name) && bytes !== null && bytes.length > KEY_ID_BYTES) return { name, bytes }
  throw new ProofError('NOTE_MALFORMED', 'a signature line of the note is malformed')
}

function isKeyName(name: string): boolean {
  return /^[^\s+]+$/u.test(name) && name.isWellFormed()
}

/** The head of a log: the number of leaves and the root hash. */
export interface Checkpoint {
  /** Name of the log: the first line of a checkpoint, and the name of the signing key. */
  readonly origin: string
  readonly size: number
  readonly root: Uint8Array
}

/** Returns the origin of the log of node `serverId`, which is also the name of the signing key. */
export function logOrigin(serverId: number): string {
  return `daicho/${serverId}`
}

/** Returns the signed text of a checkpoint: origin, size and root, one line each (C2SP tlog-checkpoint). */
export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${toBase64(root)}\n`
}

/**
 * Parses the text of a checkpoint. Lines after the third are extensions, which are ignored. Errors:
 * CHECKPOINT_MALFORMED. Source: c2sp.org/tlog-checkpoint.
 */
export function parseCheckpoint(text: string): Checkpoint {
  const lines = text.split('\n')
  const [origin = '', size = '', encoded = ''] = lines
  const root = fromBase64(encoded)
  const isCheckpoint =
    lines.length >= 4 &&
    lines.pop() === '' &&
    lines.every((line) => line !== '') &&
    /^(0|[1-9]\d{0,15})$/.test(size) &&
    Number.isSafeInteger(Number(size))
  if (isCheckpoint && root?.length === HASH_BYTES) return { origin, size: Number(size), root }
  throw new ProofError('CHECKPOINT_MALFORMED', 'the note is not a checkpoint of a log')
}

/**
 * Returns the checkpoint in `note`. The key must have signed the note, and the origin must be the name of the key.
 * Errors: NOTE_…, CHECKPOINT_MALFORMED, CHECKPOINT_FOREIGN.
 */
export async function openCheckpoint(
  verifySignature: VerifySignature,
  key: VerifierKey,
  note: string,
): Promise<Checkpoint> {
  const checkpoint = parseCheckpoint(await openNote(verifySignature, key, note))
  if (checkpoint.origin === key.name) return checkpoint
  throw new ProofError('CHECKPOINT_FOREIGN', `the checkpoint belongs to ${checkpoint.origin}`)
}

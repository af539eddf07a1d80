import { fromBase64, toBase64 } from '../../base/base64.ts'
import { ProofError } from './errors.ts'
import { equalBytes, HASH_BYTES, joined, type Sha256 } from './hashes.ts'

/** Ed25519, before the public key in a verifier key and under the key id. */
const ED25519 = 0x01
const KEY_ID_BYTES = 4
/** Longest note that is looked at. */
const NOTE_LENGTH_MAX = 65_536
const SIGNATURES_MAX = 64

/** A public key that signs notes, with the name that it signs under. */
export interface VerifierKey {
  /** Not empty; no space and no `+`. */
  readonly name: string
  /** Raw Ed25519. */
  readonly publicKey: Uint8Array
}

/** Whether `signature` is that of `publicKey` (raw Ed25519) over `message`. WebCrypto answers later. */
export type VerifySignature = (
  publicKey: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
) => boolean | Promise<boolean>

/** What hashes and checks signatures, where the verifier runs. */
export interface Crypto {
  readonly sha256: Sha256
  readonly verifySignature: VerifySignature
}

const utf8 = new TextEncoder()

/** The id of a key: the first four bytes of SHA-256 over name, newline, type and key. */
function keyId(sha256: Sha256, { name, publicKey }: VerifierKey): Uint8Array {
  const typed = joined(utf8.encode(`${name}\n`), Uint8Array.of(ED25519), publicKey)
  return sha256(typed).slice(0, KEY_ID_BYTES)
}

/** The key as text: `<name>+<key id in hex>+<base64 of type and key>` (C2SP signed-note). */
export function verifierKeyText(sha256: Sha256, key: VerifierKey): string {
  const id = [...keyId(sha256, key)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${key.name}+${id}+${toBase64(joined(Uint8Array.of(ED25519), key.publicKey))}`
}

/** The key that `text` stands for. Errors: NOTE_MALFORMED, also for keys that are not Ed25519. */
export function verifierKeyOf(sha256: Sha256, text: string): VerifierKey {
  const [, name = '', , encoded = ''] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? []
  const typed = fromBase64(encoded)
  if (typed?.length === 1 + HASH_BYTES && typed[0] === ED25519 && isKeyName(name)) {
    const key = { name, publicKey: typed.slice(1) }
    if (verifierKeyText(sha256, key) === text) return key
  }
  throw new ProofError('NOTE_MALFORMED', 'this is not an Ed25519 verifier key')
}

/** What is signed by `sign` as a note: `text`, which ends in a newline, and one signature line. */
export function signedNote(
  sha256: Sha256,
  key: VerifierKey,
  text: string,
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const signature = sign(utf8.encode(text))
  return `${text}\n— ${key.name} ${toBase64(joined(keyId(sha256, key), signature))}\n`
}

/**
 * The text of `note`, which `key` has signed.
 *
 * Signatures by other keys are passed over; one by this key that does not hold condemns the note.
 * Errors: NOTE_MALFORMED, NOTE_UNSIGNED, NOTE_FORGED. Source: c2sp.org/signed-note.
 */
export async function openNote(crypto: Crypto, key: VerifierKey, note: string): Promise<string> {
  const { text, signatures } = parseNote(note)
  const id = keyId(crypto.sha256, key)
  const own = signatures.filter(
    ({ name, bytes }) => name === key.name && equalBytes(bytes.subarray(0, KEY_ID_BYTES), id),
  )
  if (own.length === 0) {
    throw new ProofError('NOTE_UNSIGNED', `the note is not signed by the key of ${key.name}`)
  }
  const message = utf8.encode(text)
  for (const { bytes } of own) {
    if (await crypto.verifySignature(key.publicKey, message, bytes.subarray(KEY_ID_BYTES))) continue
    throw new ProofError('NOTE_FORGED', `the signature of ${key.name} does not hold`)
  }
  return text
}

function parseNote(note: string): {
  text: string
  signatures: { name: string; bytes: Uint8Array }[]
} {
  // Everything before the last empty line is the text, with the newline that ends it.
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
  return { text: note.slice(0, end), signatures: lines.map(signatureOf) }
}

function signatureOf(line: string): { name: string; bytes: Uint8Array } {
  const [, name = '', encoded = ''] = /^— (\S+) (\S+)$/.exec(line) ?? []
  const bytes = fromBase64(encoded)
  if (isKeyName(name) && bytes !== null && bytes.length > KEY_ID_BYTES) return { name, bytes }
  throw new ProofError('NOTE_MALFORMED', 'a signature line of the note is malformed')
}

function isKeyName(name: string): boolean {
  return /^[^\s+]+$/u.test(name) && name.isWellFormed()
}

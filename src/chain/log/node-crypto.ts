import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { nodeSha256 } from '../hashing.ts'
import type { Crypto, VerifySignature } from './note.ts'

/** What DER has in front of a raw Ed25519 public key (RFC 8410). */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** The raw 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Uint8Array {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length)
}

/** A node verifies many signatures of few keys; making a key takes as long as verifying with it. */
export const KEYS_KEPT = 64
const keys = new Map<string, KeyObject>()

/** The key of the raw 32 bytes. */
function publicKeyOf(raw: Uint8Array): KeyObject {
  const name = Buffer.from(raw).toString('latin1')
  const kept = keys.get(name)
  if (kept !== undefined) return kept
  const der = Buffer.concat([SPKI_PREFIX, raw])
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  if (keys.size === KEYS_KEPT) keys.clear()
  keys.set(name, key)
  return key
}

const verifySignature: VerifySignature = (publicKey, message, signature) =>
  verify(null, message, publicKeyOf(publicKey), signature)

/** Hashes and signatures by Node. */
export const nodeCrypto: Crypto = { sha256: nodeSha256, verifySignature }

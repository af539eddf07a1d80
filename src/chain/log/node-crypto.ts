import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { nodeSha256 } from '../hashing.ts'
import type { Crypto, VerifySignature } from './note.ts'

/** What DER has in front of a raw Ed25519 public key (RFC 8410). */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** The raw 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Uint8Array {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length)
}

const verifySignature: VerifySignature = (publicKey, message, signature) => {
  const der = Buffer.concat([SPKI_PREFIX, publicKey])
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  return verify(null, message, key, signature)
}

/** Hashes and signatures by Node. */
export const nodeCrypto: Crypto = { sha256: nodeSha256, verifySignature }

import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { serverIdOfRaw, type VerifySignature } from './log/checkpoint.ts'

/** The header of a raw Ed25519 public key in DER (RFC 8410). */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** The raw 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Uint8Array {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length)
}

/** The server id of a node with this public key. */
export function serverIdOf(publicKey: KeyObject): number {
  return serverIdOfRaw(rawPublicKey(publicKey))
}

/** Verifies Ed25519 signatures with Node. */
export const nodeVerifySignature: VerifySignature = (publicKey, message, signature) => {
  const der = Buffer.concat([SPKI_PREFIX, publicKey])
  return verify(
    null,
    message,
    createPublicKey({ key: der, format: 'der', type: 'spki' }),
    signature,
  )
}

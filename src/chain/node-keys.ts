import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { HASH_BYTES } from './hashes.ts'
import {
  keyAlgorithm,
  ProofError,
  serverIdOfRaw,
  toSpki,
  type VerifySignature,
} from './log/checkpoint.ts'

/** The raw 32 bytes of an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Uint8Array {
  return key.export({ format: 'der', type: 'spki' }).subarray(-HASH_BYTES)
}

export function toServerId(publicKey: KeyObject): number {
  return serverIdOfRaw(rawPublicKey(publicKey))
}

/** Verifies signatures with Node. Errors: SIGNATURES_UNSUPPORTED. */
export const nodeVerifySignature: VerifySignature = (publicKey, message, signature) => {
  return verify(null, message, requireKeyObject(publicKey), signature)
}

function requireKeyObject(publicKey: Uint8Array): KeyObject {
  try {
    return createPublicKey({ key: Buffer.from(toSpki(publicKey)), format: 'der', type: 'spki' })
  } catch (error) {
    const what = `this runtime cannot verify ${keyAlgorithm(publicKey)} signatures; use Node 24.6 or a newer version`
    throw new ProofError('SIGNATURES_UNSUPPORTED', what, { cause: error })
  }
}

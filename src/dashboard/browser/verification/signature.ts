import * as ed25519 from '@noble/ed25519'
import { sha512 } from '@noble/hashes/sha2.js'
import { type VerifySignature, webVerifySignature } from '../../../chain/portable.ts'

ed25519.hashes.sha512 = sha512

/**
 * Verifies an Ed25519 signature (RFC 8032) with Web Crypto. Verifies in JavaScript if Web Crypto has no Ed25519, which
 * is so in old browsers and on pages without TLS.
 */
export const verifySignature: VerifySignature = async (publicKey, message, signature) => {
  try {
    return await webVerifySignature(publicKey, message, signature)
  } catch {
    return verifyInJavaScript(publicKey, message, signature)
  }
}

const verifyInJavaScript: VerifySignature = (publicKey, message, signature) => {
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false // The key or the signature has the wrong length.
  }
}

import * as ed25519 from '@noble/ed25519'
import { verify } from '@noble/ed25519'
import { sha256, sha512 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'

// The signatures of the library hash with what they are given.
ed25519.hashes.sha512 = sha512

/**
 * What hashes and checks signatures in the browser: code of the page, because WebCrypto is there on
 * HTTPS and loopback only, and answers each of many small hashes later (docs/decisions/0084).
 */
export const pageCrypto = {
  /** SHA-256 of `bytes`. */
  sha256: (bytes: Uint8Array): Uint8Array => sha256(bytes),
  /** SHA-512 of `bytes` in lowercase hex. */
  sha512Hex: (bytes: Uint8Array): string => bytesToHex(sha512(bytes)),
  /** Whether `signature` is that of the Ed25519 key over `message` (RFC 8032). */
  verifySignature(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
    try {
      return verify(signature, message, publicKey, { zip215: false })
    } catch {
      return false // not even of the length of one
    }
  },
}

import * as ed25519 from '@noble/ed25519'
import { verify } from '@noble/ed25519'
import { sha256, sha512 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { webVerifySignature } from '../../../chain/portable.ts'

// The signatures of the library hash with what they are given.
ed25519.hashes.sha512 = sha512

/**
 * What hashes and checks signatures in the browser. Hashes are code of the page everywhere, because
 * those of WebCrypto answer later, and only on HTTPS and loopback. The signature is WebCrypto's where it
 * has Ed25519, and else the page's own (docs/decisions/0085-verifying-in-the-browser.md).
 */
export const pageCrypto = {
  /** SHA-256 of `bytes`. */
  sha256: (bytes: Uint8Array): Uint8Array => sha256(bytes),
  /** SHA-512 of `bytes` in lowercase hex. */
  sha512Hex: (bytes: Uint8Array): string => bytesToHex(sha512(bytes)),
  /** Whether `signature` is that of the Ed25519 key over `message` (RFC 8032). */
  async verifySignature(
    publicKey: Uint8Array,
    message: Uint8Array,
    signature: Uint8Array,
  ): Promise<boolean> {
    try {
      return await webVerifySignature(publicKey, message, signature)
    } catch {
      return pageVerifySignature(publicKey, message, signature)
    }
  },
}

function pageVerifySignature(
  publicKey: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  try {
    return verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false // not even of the length of one
  }
}

/** Bytes of a SHA-256 hash, a commitment and a blind. */
export const HASH_BYTES = 32

/** SHA-256: an argument of everything that also runs in a browser, which has another one than Node. */
export type Sha256 = (bytes: Uint8Array) => Uint8Array

const HMAC_BLOCK_BYTES = 64 // of SHA-256

/** The hash of a leaf that holds `entry` (RFC 6962 section 2.1). */
export function leafHash(sha256: Sha256, entry: Uint8Array): Uint8Array {
  return sha256(joined(Uint8Array.of(0x00), entry))
}

const node = new Uint8Array(1 + 2 * HASH_BYTES)
node[0] = 0x01

/** The hash of the node over two hashes (RFC 6962 section 2.1). */
export function nodeHash(sha256: Sha256, left: Uint8Array, right: Uint8Array): Uint8Array {
  node.set(left, 1)
  node.set(right, 1 + HASH_BYTES)
  return sha256(node)
}

/** HMAC-SHA-256 of `message` under a `key` of at most 64 bytes (RFC 2104). */
export function hmacSha256(sha256: Sha256, key: Uint8Array, message: Uint8Array): Uint8Array {
  const padded = (pad: number) =>
    Uint8Array.from({ length: HMAC_BLOCK_BYTES }, (_, at) => (key[at] ?? 0) ^ pad)
  return sha256(joined(padded(0x5c), sha256(joined(padded(0x36), message))))
}

/** Whether two arrays hold the same bytes. */
export function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at])
}

/** `parts` one after the other. */
export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

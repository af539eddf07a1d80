import { createHash, type KeyObject } from 'node:crypto'

/** Raw Ed25519 public keys are this many bytes; DER puts a fixed header before them. */
const RAW_KEY_BYTES = 32

/**
 * The server id that an Ed25519 public key stands for: the first 53 bits of SHA-256 over the raw
 * 32-byte key, as an integer that JSON and JavaScript hold exactly. 0 is not used and becomes 1.
 *
 * It names a key, it does not replace it: 53 bits can be searched for, so peers pin whole keys.
 * Source: specification, “Ledger entry”, `serverid`; docs/decisions/0001-block-id.md.
 */
export function serverIdOf(publicKey: KeyObject): number {
  const der = publicKey.export({ format: 'der', type: 'spki' })
  return serverIdOfRaw(der.subarray(-RAW_KEY_BYTES))
}

/** The server id that the raw 32 bytes of an Ed25519 public key stand for. */
export function serverIdOfRaw(raw: Uint8Array): number {
  const digest = createHash('sha256').update(raw).digest()
  return Number(digest.readBigUInt64BE(0) >> 11n) || 1
}

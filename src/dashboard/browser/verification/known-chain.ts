import { parseVerifierKey, serverIdOfRaw, type VerifierKey } from '../../../chain/portable.ts'
import { FaultFound } from './checks.ts'

/** The stored result of an earlier verification. */
export interface Remembered {
  readonly verifierKey: string
  readonly size: number
  /** Root of the log with `size` blocks, in base64. */
  readonly root: string
  /** Time at which this browser verified the whole chain, milliseconds since the Unix epoch. */
  readonly verifiedAt?: number
}

/**
 * Returns what to remember after `chain` was verified. If `chain` has no `verifiedAt`, the old one stays. The larger size
 * with its root stays too, because another tab may have verified more blocks meanwhile.
 */
export function mergeKnown(before: Remembered | null, chain: Remembered): Remembered {
  const isBehind = before?.verifierKey === chain.verifierKey && before.size > chain.size
  const { size, root } = isBehind ? before : chain
  return { ...before, ...chain, size, root }
}

/** The key of a node, and the knowledge of this browser about the node. */
export interface KnownNode {
  readonly serverId: number
  /** The verifier key, as returned by the node. */
  readonly verifierKey: string
  /** The result of the last verification, or null at the first verification. */
  readonly remembered: Remembered | null
}

/** Returns the key of a node. Errors: FaultFound if the key is not of this server, or differs from the known key. */
export function requireKey({ serverId, verifierKey, remembered }: KnownNode): VerifierKey {
  const key = parseKey(verifierKey)
  if (key === null || serverIdOfRaw(key.publicKey) !== serverId) throw new FaultFound('key')
  if (remembered === null || remembered.verifierKey === verifierKey.trim()) return key
  throw new FaultFound('keyChanged')
}

function parseKey(text: string): VerifierKey | null {
  try {
    return parseVerifierKey(text.trim())
  } catch {
    return null
  }
}

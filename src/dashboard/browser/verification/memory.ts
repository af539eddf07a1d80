import type { Remembered } from './verify-chain.ts'

const STORAGE_KEY = 'daicho.verified'
/** Maximum number of remembered nodes, because a node without a folder has a new server id after each start. */
const CHAINS_MAX = 20

/** Returns the chains that this browser has verified at this address, by server id. */
export function rememberedChains(): Readonly<Record<string, Remembered>> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '{}')
    const chains = Object.entries(Object(value)).filter((pair): pair is [string, Remembered] =>
      isRemembered(pair[1]),
    )
    return Object.fromEntries(chains)
  } catch {
    return {}
  }
}

/** Stores a verified key, size and root for later verifications. If `chain` has no `verifiedAt`, the old one stays. */
export function remember(serverId: number, chain: Remembered): void {
  const known = rememberedChains()
  const others = Object.entries(known).filter(([id]) => id !== `${serverId}`)
  const merged = { ...known[serverId], ...chain }
  const chainsToKeep = [...others.slice(-(CHAINS_MAX - 1)), [`${serverId}`, merged] as const]
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(Object.fromEntries(chainsToKeep)))
  } catch {
    // If the browser has no storage, the next verification is not compared with this result.
  }
}

function isRemembered(value: unknown): value is Remembered {
  const { verifierKey, size, root } = Object(value)
  return typeof verifierKey === 'string' && Number.isSafeInteger(size) && typeof root === 'string'
}

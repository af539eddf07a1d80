import type { Remembered } from './verify-chain.ts'

const KEPT = 'daicho.verified'

/** What this browser has verified at this address, by server id. */
export function rememberedChains(): Readonly<Record<string, Remembered>> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEPT) ?? '{}')
    const chains = Object.entries(Object(value)).filter((pair): pair is [string, Remembered] =>
      isRemembered(pair[1]),
    )
    return Object.fromEntries(chains)
  } catch {
    return {}
  }
}

/** Nodes that are remembered; those in memory have another id at every start. */
const CHAINS_MAX = 20

/** Remembers `chain` as that of `serverId`. */
export function remember(serverId: number, chain: Remembered): void {
  const others = Object.entries(rememberedChains()).filter(([id]) => id !== `${serverId}`)
  const kept = [...others.slice(-(CHAINS_MAX - 1)), [`${serverId}`, chain] as const]
  try {
    localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(kept)))
  } catch {
    // A browser that keeps nothing compares with nothing.
  }
}

function isRemembered(value: unknown): value is Remembered {
  const { verifierKey, size, root } = Object(value)
  return typeof verifierKey === 'string' && Number.isSafeInteger(size) && typeof root === 'string'
}

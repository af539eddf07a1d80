import { parseForeignJsonOrNull } from '../../../base/strict-json.ts'
import { base } from '../node/ledger.ts'
import { readStored, writeStored } from '../node/storage.ts'
import { mergeKnown, type Remembered } from './known-chain.ts'

// By the address of the node and not by the server id of the node, because a node can take any server id.
const STORAGE_KEY = `daicho.verified ${base}`

/** Returns the chain that this browser verified last at this address, or null. */
export function rememberedChain(): Remembered | null {
  const value = parseForeignJsonOrNull(readStored(STORAGE_KEY) ?? 'null')
  return isRemembered(value) ? value : null
}

/** Stores a verified key, size and root for later verifications; see `mergeKnown`. */
export function remember(chain: Remembered): void {
  writeStored(STORAGE_KEY, JSON.stringify(mergeKnown(rememberedChain(), chain)))
}

function isRemembered(value: unknown): value is Remembered {
  const { verifierKey, size, root } = Object(value)
  return typeof verifierKey === 'string' && Number.isSafeInteger(size) && typeof root === 'string'
}

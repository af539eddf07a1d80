import { isJsonObject } from '../../base/json.ts'
import { heightOf, NETWORK_TYPE, networkItemId } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { objectIn } from '../resources/database.ts'

/**
 * Returns the item that records the network of database `name`, or null. The database need not exist: another process
 * may have deleted it since its name was read.
 */
export function readNetworkItem(
  ledger: LedgerService,
  name: string,
): ReturnType<LedgerService['readItem']> {
  return ledger.reader.readItem(name, networkItemId(name))
}

/** Returns the names of the databases whose network item was changed in the blocks of heights `from` to `to`. */
async function changedNetworks(
  ledger: LedgerService,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<Set<string>> {
  const names = new Set<string>()
  let height = from
  for await (const page of ledger.reader.blocks(from)) {
    for (const { entries } of page) {
      if (height > to) return names
      height += 1
      for (const text of entries) {
        // Skips most entries without parsing them, because most entries do not record a network.
        if (!text.includes(NETWORK_TYPE)) continue
        const { db, item } = objectIn(text)
        const id = isJsonObject(item) ? item.id : null
        if (typeof db === 'string' && id === networkItemId(db)) names.add(db)
      }
    }
    // Returns without reading the next page, which is usually empty.
    if (height > to) return names
  }
  return names
}

/** New blocks, and the names of the databases whose network item these blocks change. */
export interface FollowedBlocks {
  readonly from: number
  readonly to: number
  readonly names: ReadonlySet<string>
}

/** The subscription that `followNetworks` returns. */
export interface NetworkFollower {
  /** Resolves when `follow` has processed all reported blocks. */
  settled(): Promise<void>
  close(): Promise<void>
}

/**
 * Calls `follow` with the new blocks of a ledger that several processes change. If `follow` rejects, its blocks are
 * passed again together with the next blocks.
 */
export function followNetworks(
  ledger: LedgerService,
  follow: (blocks: FollowedBlocks) => Promise<void>,
): NetworkFollower {
  let next: number | null = null
  let running = Promise.resolve()
  const settled = () => running
  if (!ledger.isShared) return { settled, close: settled }
  const stop = ledger.onBlocks(({ from, last }) => {
    running = running
      .then(async () => {
        next ??= from
        const to = heightOf(last)
        const names = await changedNetworks(ledger, { from: next, to })
        await follow({ from: next, to, names })
        next = to + 1
      })
      .catch(() => {})
  })
  return {
    settled,
    close() {
      stop()
      return running
    },
  }
}

import type { Schedule } from '../../base/clock.ts'
import { isJsonObject } from '../../base/json.ts'
import { NETWORK_TYPE, networkItemId, StoreError, unpackHeight } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { NetworkError } from '../errors.ts'
import { parseStored } from '../resources/database.ts'
import { isTombstone } from '../resources/network-item.ts'

/**
 * Returns the item that records the network of database `name`, or null. The database need not exist: another process
 * may have deleted it since its name was read.
 */
export function readNetworkItem(
  ledger: LedgerService,
  name: string,
): ReturnType<LedgerService['reader']['readItem']> {
  return ledger.reader.readItem(name, networkItemId(name))
}

/** Throws if the ledger has a database `name`. Errors: NETWORK_EXISTS, NETWORK_NAME_TAKEN. */
export async function requireFreeName(name: string, ledger: LedgerService): Promise<void> {
  if (!(await ledger.read.databases()).includes(name)) return
  const item = await readNetworkItem(ledger, name)
  if (item !== null && !isTombstone(item.text)) {
    throw new NetworkError('NETWORK_EXISTS', `a network ${name} is deployed already`)
  }
  const message =
    item === null
      ? `the ledger has a database ${name} that belongs to no network; choose another name`
      : `a network ${name} was removed, and its name cannot be used again; choose another name`
  throw new NetworkError('NETWORK_NAME_TAKEN', message)
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
        const { db, item } = parseStored(text)
        const id = isJsonObject(item) ? item.id : null
        if (typeof db === 'string' && id === networkItemId(db)) names.add(db)
      }
    }
    // Returns without reading the next page, which is usually empty.
    if (height > to) return names
  }
  throw new StoreError('STORE_UNAVAILABLE', `block ${height} is missing in the database`)
}

/** New blocks, and the names of the databases whose network item these blocks change. */
export interface FollowedBlocks {
  readonly from: number
  readonly to: number
  readonly names: ReadonlySet<string>
}

/** Delay before failed blocks are passed again, milliseconds. */
const RETRY_MS = 100

export interface FollowerParts {
  readonly ledger: LedgerService
  readonly schedule: Schedule
  /** Applies the network changes in these blocks. Called again with the same blocks after it rejects. */
  readonly follow: (blocks: FollowedBlocks) => Promise<void>
}

/** Passes the new blocks of a ledger that several processes change to `follow`, in order, until it succeeds. */
export class NetworkFollower {
  readonly #parts: FollowerParts
  readonly #stop: () => void
  /** Height of the next block to follow; null before the first report. */
  #next: number | null = null
  /** Height of the last reported block. */
  #last = -1
  #running: Promise<void> | null = null
  #cancelRetry: () => void = () => {}
  #failure: Error | null = null
  #isClosed = false

  constructor(parts: FollowerParts) {
    this.#parts = parts
    this.#stop = parts.ledger.follower.isShared
      ? parts.ledger.follower.listen(({ from, last }) => {
          this.#next ??= from
          this.#last = unpackHeight(last)
          // Remembers a failure, and tries again.
          this.#followed().catch(() => {})
        })
      : () => {}
  }

  /** The reason why the newest blocks are not followed yet, or null. */
  get failure(): Error | null {
    return this.#failure
  }

  /** Follows all committed blocks. Errors: as for `HeadFollower.catchUp` and `follow`. */
  async catchUp(): Promise<void> {
    await this.#parts.ledger.follower.catchUp()
    await this.#followed()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#stop()
    this.#cancelRetry()
    await this.#running?.catch(() => {})
  }

  /** Resolves when all reported blocks are followed. */
  async #followed(): Promise<void> {
    while (this.#next !== null && this.#next <= this.#last && !this.#isClosed) {
      this.#running ??= this.#follow(this.#next, this.#last).finally(() => {
        this.#running = null
      })
      await this.#running
    }
  }

  async #follow(from: number, to: number): Promise<void> {
    const { ledger, schedule, follow } = this.#parts
    this.#cancelRetry()
    try {
      await follow({ from, to, names: await changedNetworks(ledger, { from, to }) })
      this.#next = to + 1
      this.#failure = null
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error))
      const retry = () => void this.#followed().catch(() => {})
      if (!this.#isClosed) this.#cancelRetry = schedule.after(RETRY_MS, retry)
      throw error
    }
  }
}

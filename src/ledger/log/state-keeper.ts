import { sign } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Block, signedNote, stateText } from '../../chain/index.ts'
import { STATE_FILE, StateFile, StoreError, type StoreReader } from '../../storage/index.ts'
import type { LogKey } from './signed-head.ts'
import { rootAt } from './signed-head.ts'
import { StateFollower } from './state-follower.ts'

/** Changes after which the state is committed before it is followed further, because they are in memory until then. */
const CHANGES_MAX = 20_000
/** Blocks that are read at once while the state is behind the log. */
const BLOCKS_PER_READ = 64
/** Maximum milliseconds in which one call of `advance` follows older blocks. */
const FOLLOWING_MS_MAX = 200
/** A commit is due after this multiple of the duration of the last commit, so that small commits take little time. */
const REST_FACTOR = 4
const REST_MS_MAX = 1_000
/** Time after a failure before the state is followed again, milliseconds. */
const RETRY_MS = 10_000

/**
 * Keeps the signed state of a log in its file. The state is derived: whatever happens to the file, it is followed again
 * from the chain. A failure here never stops the log.
 */
export class StateKeeper {
  readonly #path: string
  readonly #store: StoreReader
  readonly #key: LogKey
  #opened: { readonly file: StateFile; readonly follower: StateFollower } | null = null
  #committed = 0
  #dueMs = 0

  constructor(folder: string, store: StoreReader, key: LogKey) {
    this.#path = join(folder, STATE_FILE)
    this.#store = store
    this.#key = key
  }

  /** Adds a block of the log, unless the state is behind it. */
  push(block: Block): void {
    const { follower } = this.#opened ?? {}
    if (follower?.size === block.height) this.#guarded(() => follower.push(block))
  }

  /**
   * Continues the state up to the first `size` blocks, which were verified and signed, and commits it if that is due.
   * Returns the number of blocks of the committed state.
   */
  async advance(size: number): Promise<number> {
    if (performance.now() >= this.#dueMs) await this.#advance(size)
    return this.#committed
  }

  async #advance(size: number): Promise<void> {
    try {
      this.#opened ??= await this.#open()
      const { follower } = this.#opened
      await this.#follow(follower, size)
      if (follower.size === this.#committed) return
      const log = await rootAt(this.#store, follower.size)
      this.#guarded(() => this.#commit(follower, log))
    } catch {
      // The store cannot be read now.
      this.close()
      this.#dueMs = performance.now() + RETRY_MS
    }
  }

  close(): void {
    this.#opened?.file.close()
    this.#opened = null
  }

  async #follow(follower: StateFollower, size: number): Promise<void> {
    const untilMs = performance.now() + FOLLOWING_MS_MAX
    while (follower.size < size && follower.changes < CHANGES_MAX) {
      const limit = Math.min(BLOCKS_PER_READ, size - follower.size)
      const blocks = await this.#store.blocks(this.#store.serverId, follower.size, limit)
      for (const block of blocks) follower.push(block)
      if (blocks.length === 0 || performance.now() > untilMs) return
    }
  }

  #commit(follower: StateFollower, log: Uint8Array): void {
    const { size } = follower
    const startMs = performance.now()
    const { verifier, privateKey } = this.#key
    follower.commit((root) => {
      const text = stateText(verifier, { size, root, log })
      return signedNote(verifier, text, (message) => sign(null, message, privateKey))
    })
    this.#committed = size
    const endMs = performance.now()
    this.#dueMs = endMs + Math.min(REST_MS_MAX, REST_FACTOR * (endMs - startMs))
  }

  /** Opens the file. A state of other blocks than those of the store is removed. */
  async #open(): Promise<{ readonly file: StateFile; readonly follower: StateFollower }> {
    const file = this.#guarded(() => StateFile.open(this.#path))
    if (file === null) throw new StoreError('STORE_FAILED', `${this.#path} cannot be opened`)
    const { size, block } = file.head()
    const [last] = size === 0 ? [] : await this.#store.blocks(this.#store.serverId, size - 1, 1)
    if (size > 0 && last?.id !== block) file.clear()
    const follower = new StateFollower(file, this.#store.serverId)
    this.#committed = follower.size
    return { file, follower }
  }

  /** Runs `work` on the file. After a failure, returns null and removes the file, because it may be damaged. */
  #guarded<Result>(work: () => Result): Result | null {
    try {
      return work()
    } catch {
      this.close()
      this.#committed = 0
      this.#dueMs = performance.now() + RETRY_MS
      for (const suffix of ['', '-wal', '-shm']) rmSync(this.#path + suffix, { force: true })
      return null
    }
  }
}

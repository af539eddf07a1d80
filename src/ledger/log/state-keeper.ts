import { sign } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Block, type SignedState, signedNote, stateText } from '../../chain/index.ts'
import { STATE_FILE, StateFile, StoreError, type StoreReader } from '../../storage/index.ts'
import { type LogKey, rootAt } from './signed-head.ts'
import { StateFollower } from './state-follower.ts'

/**
 * Changes after which the state is committed before it is followed further, because they are in memory until then. Many
 * changes at once rewrite fewer pages each.
 */
const CHANGES_MAX = 40_000
/** Blocks that are read at once while the state is behind the log. */
const BLOCKS_PER_READ = 64
/** Blocks that one call of `advance` follows at most. */
const BLOCKS_MAX = 10_000
const NONE = -1
/** Calls of `advance` after a failure that do nothing. */
const SKIPS_AFTER_FAILURE = 20

/** Returns the note for a state; null if it has none. */
export type StateNote = (state: SignedState) => string | null

/** Signs states with the key of a log. */
export function stateSigner({ verifier, privateKey }: LogKey): StateNote {
  return (state) =>
    signedNote(verifier, stateText(verifier, state), (message) => sign(null, message, privateKey))
}

/**
 * Keeps the state of a log, with its note, in its file. The state is derived: whatever happens to the file, it is followed again
 * from the chain. A failure here never stops the log.
 */
export class StateKeeper {
  readonly #path: string
  readonly #store: Pick<StoreReader, 'serverId' | 'blocks' | 'treeNodes'>
  readonly #note: StateNote
  #opened: { readonly file: StateFile; readonly follower: StateFollower } | null = null
  /** Number of blocks of the signed state in the file; -1 if there is none. */
  #committed = NONE
  #skips = 0

  constructor(
    folder: string,
    store: Pick<StoreReader, 'serverId' | 'blocks' | 'treeNodes'>,
    note: StateNote,
  ) {
    this.#path = join(folder, STATE_FILE)
    this.#store = store
    this.#note = note
  }

  /** Adds a block of the log, unless the state is behind it. */
  push(block: Block): void {
    const { follower } = this.#opened ?? {}
    if (follower?.size === block.height) this.#guarded(() => follower.push(block))
  }

  /**
   * Continues the state up to the first `size` blocks, which were verified and signed, as far as one call may. Commits
   * it if `isWanted`, or if it has many changes. Returns the number of blocks of the committed state.
   */
  async advance(size: number, isWanted: boolean): Promise<number> {
    this.#skips -= 1
    if (this.#skips > 0) return this.#committed
    try {
      this.#opened ??= await this.#open()
      const { follower } = this.#opened
      await this.#follow(follower, size)
      if (follower.size === this.#committed) return this.#committed
      if (!isWanted && follower.changes < CHANGES_MAX) return this.#committed
      const log = await rootAt(this.#store, follower.size)
      this.#guarded(() => this.#commit(follower, log))
    } catch {
      // The store cannot be read now.
      this.close()
      this.#skips = SKIPS_AFTER_FAILURE
    }
    return this.#committed
  }

  /** The note of the stored state, or null. */
  get note(): string | null {
    return this.#opened?.file.head().note ?? null
  }

  close(): void {
    this.#opened?.file.close()
    this.#opened = null
  }

  /** Removes the file, so that the state is followed again from the first block. */
  remove(): void {
    this.close()
    this.#committed = NONE
    for (const suffix of ['', '-wal', '-shm']) rmSync(this.#path + suffix, { force: true })
  }

  async #follow(follower: StateFollower, size: number): Promise<void> {
    const end = Math.min(size, follower.size + BLOCKS_MAX)
    while (follower.size < end && follower.changes < CHANGES_MAX) {
      const limit = Math.min(BLOCKS_PER_READ, end - follower.size)
      const blocks = await this.#store.blocks(this.#store.serverId, follower.size, limit)
      for (const block of blocks) follower.push(block)
      if (blocks.length === 0) return
    }
  }

  #commit(follower: StateFollower, log: Uint8Array): void {
    const { size } = follower
    follower.commit((root) => this.#note({ size, root, log }))
    this.#committed = size
  }

  /** Opens the file. A state of other blocks than those of the store is removed. */
  async #open(): Promise<{ readonly file: StateFile; readonly follower: StateFollower }> {
    const file = this.#guarded(() => StateFile.open(this.#path))
    if (file === null) throw new StoreError('STORE_FAILED', `${this.#path} cannot be opened`)
    const { size, block } = file.head()
    const [last] = size === 0 ? [] : await this.#store.blocks(this.#store.serverId, size - 1, 1)
    if (size > 0 && last?.id !== block) file.clear()
    const follower = new StateFollower(file, this.#store.serverId)
    this.#committed = file.head().note === null ? NONE : follower.size
    return { file, follower }
  }

  /** Runs `work` on the file. After a failure, returns null and removes the file, because it may be damaged. */
  #guarded<Result>(work: () => Result): Result | null {
    try {
      return work()
    } catch {
      this.#skips = SKIPS_AFTER_FAILURE
      this.remove()
      return null
    }
  }
}

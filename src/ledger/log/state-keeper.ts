import { sign } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Block,
  EMPTY_SUBTREE,
  equalBytes,
  type SignedState,
  signedNote,
  stateText,
} from '../../chain/index.ts'
import {
  isFileOutage,
  STATE_FILE,
  StateFile,
  type StateHead,
  type StoreReader,
} from '../../storage/index.ts'
import { type LogKey, rootAt } from './signed-head.ts'
import { StateFollower } from './state-follower.ts'

/**
 * Changes after which the state is committed before it is followed further, because they are in memory until then. Many
 * changes at once rewrite fewer pages each.
 */
export const CHANGES_MAX = 40_000
/** Blocks that are read at once while the state is behind the log. */
const BLOCKS_PER_READ = 64
/** Blocks that one call of `advance` follows at most. */
const BLOCKS_MAX = 10_000
const NONE = -1
/** Calls of `advance` after a failure that do nothing. */
const SKIPS_AFTER_FAILURE = 20

/** Returns the note for a state, always the same one. */
export type StateNote = (state: SignedState) => string

/** Signs states with the key of a log. */
export function stateSigner({ verifier, privateKey }: LogKey): StateNote {
  return (state) =>
    signedNote(verifier, stateText(verifier, state), (message) => sign(null, message, privateKey))
}

/** The store of the chain cannot be read now. */
class Unread extends Error {}

/**
 * Keeps the state of a log, with its note, in its file. The state is derived: after a failure that may come from the
 * content of the file, the file is removed, and the state is followed again. A failure here never stops the log.
 *
 * A crash before the end of a commit leaves the state of the commit before. A crash in `remove` leaves no file, or
 * only a write-ahead log, which SQLite ignores without its file.
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
    if (follower?.size !== block.height) return
    try {
      follower.push(block)
    } catch {
      this.remove()
    }
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
      const at = follower.size
      const log = await this.#read(rootAt(this.#store, at))
      follower.commit((root) => this.#note({ size: at, root, log }))
      this.#committed = at
    } catch (error) {
      if (error instanceof Unread || isFileOutage(error)) this.close()
      else this.remove()
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
    this.#skips = 0
    try {
      for (const suffix of ['', '-wal', '-shm']) rmSync(this.#path + suffix, { force: true })
    } catch {
      // The disk fails. If the file stays, it is read again before it is used.
    }
  }

  async #follow(follower: StateFollower, size: number): Promise<void> {
    const end = Math.min(size, follower.size + BLOCKS_MAX)
    while (follower.size < end && follower.changes < CHANGES_MAX) {
      const limit = Math.min(BLOCKS_PER_READ, end - follower.size)
      const blocks = await this.#blocks(follower.size, limit)
      for (const block of blocks) follower.push(block)
      if (blocks.length === 0) return
    }
  }

  #blocks(from: number, limit: number): Promise<readonly Block[]> {
    return this.#read(this.#store.blocks(this.#store.serverId, from, limit))
  }

  #read<Result>(result: Promise<Result>): Promise<Result> {
    return result.catch((cause: unknown) => {
      throw new Unread('the store cannot be read', { cause })
    })
  }

  /** Opens the file. A state of other blocks than those of the store is removed. */
  async #open(): Promise<{ readonly file: StateFile; readonly follower: StateFollower }> {
    const file = StateFile.open(this.#path)
    try {
      let follower = new StateFollower(file, this.#store.serverId)
      if (!(await this.#isRight(file.head(), follower.root))) {
        file.clear()
        follower = new StateFollower(file, this.#store.serverId)
      }
      this.#committed = file.head().note === null ? NONE : follower.size
      return { file, follower }
    } catch (error) {
      file.close()
      throw error
    }
  }

  /** Whether a state is one of this chain, and has the note for it, so that no damaged note is ever published. */
  async #isRight({ size, block, note }: StateHead, root: Uint8Array): Promise<boolean> {
    if (note === null) return size === 0 && equalBytes(root, EMPTY_SUBTREE.hash)
    const [last] = size === 0 ? [] : await this.#blocks(size - 1, 1)
    if (size > 0 && last?.id !== block) return false
    const log = await this.#read(rootAt(this.#store, size))
    // A mirror may have added a signature.
    return note.startsWith(this.#note({ size, root, log }))
  }
}

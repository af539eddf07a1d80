import {
  type Evidence,
  equalBytes,
  nodeVerifySignature,
  openState,
  parseStateNote,
  type SignedState,
  stateEvidence,
  stateText,
  type VerifierKey,
} from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { recomputeState } from '../log/recomputed-state.ts'
import { StateKeeper } from '../log/state-keeper.ts'

interface OpenedState extends SignedState {
  readonly note: string
}

/**
 * Recomputes the state of a mirrored chain, and compares it with the states that the owner of the chain has signed. Each
 * signed state is compared at its own size, one after the other.
 */
export class ComparedState {
  readonly #key: VerifierKey
  readonly #store: Pick<StoreReader, 'serverId' | 'blocks' | 'treeNodes'>
  readonly #keeper: StateKeeper
  /** The signed state to compare next; null after a comparison. */
  #next: OpenedState | null = null
  #comparedNote: string | null = null

  constructor(
    folder: string,
    store: Pick<StoreReader, 'serverId' | 'blocks' | 'treeNodes'>,
    key: VerifierKey,
  ) {
    this.#key = key
    this.#store = store
    // The file has the recomputed state, with the signature of the owner if the owner has signed this state.
    this.#keeper = new StateKeeper(folder, store, (state) => {
      const text = `${stateText(key, state)}\n`
      return this.#next?.note.startsWith(text) === true ? this.#next.note : text
    })
  }

  /**
   * Returns the next signed state to compare, or null: the one in `note` unless one of fewer blocks waits. A state of
   * blocks that never come must not keep the others waiting. Errors: ProofError.
   */
  async next(note: string): Promise<OpenedState | null> {
    if (note === this.#comparedNote) return this.#next
    const state = { ...(await openState(nodeVerifySignature, this.#key, note)), note }
    if (state.size < (this.#next?.size ?? Number.POSITIVE_INFINITY)) this.#next = state
    return this.#next
  }

  /**
   * Compares a state whose blocks are all stored. Returns evidence if it is wrong. `checkpoint` is a note about the
   * same log. A state that is older than the recomputed one is not compared.
   */
  async compare(state: OpenedState, checkpoint: string): Promise<Evidence | null> {
    let size = -1
    for (let before = -2; size > before && size < state.size; ) {
      before = size
      size = await this.#keeper.advance(state.size, true)
    }
    // The file failed and was removed. The state is compared later, with a new file.
    if (size < state.size) return null
    this.#next = null
    this.#comparedNote = state.note
    const computed = parseStateNote(this.#key, this.#keeper.note ?? '')
    if (computed.size !== state.size || equalBytes(computed.root, state.root)) return null
    // The file of this node may be wrong, so evidence needs a second computation from the blocks alone.
    const { size: blocks, root, log } = await recomputeState(this.#store, state.size)
    if (blocks === state.size && equalBytes(log, state.log) && !equalBytes(root, state.root)) {
      return stateEvidence(state, [checkpoint, state.note], root)
    }
    this.#keeper.remove()
    return null
  }

  close(): void {
    this.#keeper.close()
  }
}

import { type Block, erasedIn, packPosition } from '../chain/index.ts'
import type { Effect } from './effect.ts'
import { erasedEntryText } from './erasure.ts'

/**
 * Follows the erased entries of a chain that is read from its beginning, without a store: each must be
 * erased by an entry that comes later. Memory grows with the erased entries only.
 */
export class ErasureTally {
  /** What is left of erased entries whose erasing entry has not come yet, by position. */
  readonly #left = new Map<number, string>()
  #erased = 0

  /** Erased entries met so far. */
  get erased(): number {
    return this.#erased
  }

  /** To be called for each block and what its entries do; the first entry that is wrong, or null. */
  block(block: Block, effects: readonly Effect[]): { index: number; what: string } | null {
    for (const index of erasedIn(block)) {
      this.#left.set(packPosition(block.height, index), block.entries[index] ?? '')
      this.#erased += 1
    }
    for (const [index, effect] of effects.entries()) {
      if (effect.kind !== 'erase_item') continue
      for (const position of effect.positions) {
        const left = this.#left.get(position)
        if (left === undefined || erasedEntryText(left, effect.db, effect.of) !== left) {
          return { index, what: 'it erases an entry that still has its content' }
        }
        this.#left.delete(position)
      }
    }
    return null
  }

  /** After the last block. */
  end(): string | null {
    return this.#left.size === 0
      ? null
      : `${this.#left.size} entries have no blind, and none erases them`
  }
}

import {
  type Block,
  erasedIn,
  packPosition,
  positionText,
  unpackPosition,
} from '../../chain/index.ts'
import type { Effect } from '../effect.ts'
import { erasedEntryText, parseEntry } from '../erasure.ts'
import type { StoreReader } from '../store.ts'

/**
 * Compares what is erased with what the chain says is to be erased. Every position that an `erase_item`
 * entry names is noted as erased by that entry, and holds what is left of a former revision of the item;
 * there are as many notes as names, and as many erased entries, each of them noted. So nobody can
 * change an entry and call it erased.
 */
export class ErasureComparison {
  /** Entries met that are erased. */
  erased = 0
  readonly #store: StoreReader
  /** Positions that `erase_item` entries have named. */
  #named = 0
  readonly #erasers = new Set<number>()
  /** The block that was looked at last. */
  #block: Block | undefined

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** The first erased entry of `block` that nothing erases, by its index, or null. */
  async block(block: Block): Promise<{ readonly index: number; readonly what: string } | null> {
    for (const index of erasedIn(block)) {
      const position = packPosition(block.height, index)
      if ((await this.#store.eraser(position)) === null) {
        return { index, what: 'it has no blind, and no entry erases it' }
      }
      if (await this.#isCurrent(block.entries[index] ?? '', position)) {
        return { index, what: 'it is erased, and is the current revision of its item' }
      }
      this.erased += 1
    }
    return null
  }

  /** What `effect` names that is not erased by it, or null. */
  async entry(effect: Extract<Effect, { kind: 'erase_item' }>): Promise<string | null> {
    const { position, positions, db, of } = effect
    this.#named += positions.length
    this.#erasers.add(position)
    for (const one of positions) {
      if (one >= position || (await this.#store.eraser(one)) !== position) {
        return `${positionText(one)} is not noted as erased by this entry`
      }
      if (!(await this.#isLeftOf(one, db, of))) {
        return `${positionText(one)} is not what is left of item ${of} of ${db}`
      }
    }
    return null
  }

  /** After the last block. */
  async end(): Promise<string | null> {
    const noted = await this.#store.countErased()
    if (noted !== this.#named || noted !== this.erased) {
      return `${noted} entries are noted as erased; the chain erases ${this.#named}, and ${this.erased} are`
    }
    const stray = (await this.#store.uncompacted()).find((position) => !this.#erasers.has(position))
    if (stray === undefined) return null
    return `${positionText(stray)} is noted as an erasure; the chain has none there`
  }

  async #isCurrent(left: string, position: number): Promise<boolean> {
    const entry = parseEntry(left)
    if (entry === null || !('item' in entry)) return false
    return (await this.#store.item(entry.db, entry.item.id))?.revision === position
  }

  async #isLeftOf(position: number, db: string, id: string): Promise<boolean> {
    const { height, index } = unpackPosition(position)
    if (this.#block?.height !== height) {
      ;[this.#block] = await this.#store.blocks(this.#store.serverId, height, 1)
    }
    const text = this.#block?.height === height ? this.#block.entries[index] : undefined
    return text !== undefined && erasedEntryText(text, db, id) === text
  }
}

import type { DatabaseSync } from 'node:sqlite'
import type { Block } from '../../chain/index.ts'

/** Tables that came after the first format, with what fills them in a store that has a chain already. */
export interface Addition {
  readonly tables: string
  /** Makes what takes the blocks of the chain one after the other, from height 0. */
  readonly filler?: (database: DatabaseSync) => (block: Block) => void
}

import type { DatabaseSync } from 'node:sqlite'
import {
  type Block,
  blockLeaf,
  type Frontier,
  frontierNodes,
  grown,
  HASH_BYTES,
  nodePlace,
} from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'
import { readBinary } from '../sql/rows.ts'
import { toQueries } from './statements.ts'

const SQL = {
  insert: 'INSERT INTO tree (height, hashes) VALUES (?, ?)',
  last: 'SELECT height FROM tree ORDER BY height DESC LIMIT 1',
  leaf: 'SELECT hashes FROM tree WHERE height = ?',
} as const

/** Appends to the Merkle log over the headers (table `tree`). */
export class TreeRows {
  readonly #sql
  #frontier: Frontier | null = null

  constructor(database: DatabaseSync) {
    this.#sql = toQueries(database, SQL)
  }

  /** Adds the leaf of `block`, inside its transaction. Errors: STORE_DAMAGED if earlier rows are missing. */
  add(block: Block): void {
    const before = this.#frontier ?? this.#read()
    if (before.size !== block.height) {
      throw new StoreError(
        'STORE_DAMAGED',
        `the log has ${before.size} leaves before the block of height ${block.height}`,
      )
    }
    const { frontier, nodes } = grown(before, blockLeaf(block))
    this.#sql.insert.run(block.height, Buffer.concat(nodes))
    this.#frontier = frontier
  }

  /** Call after a rollback. */
  reset(): void {
    this.#frontier = null
  }

  #read(): Frontier {
    const last = this.#sql.last.get()
    const size = last === undefined ? 0 : Number(last[0]) + 1
    const peaks = frontierNodes(size).map((node) => {
      const { leaf, at } = nodePlace(node)
      const row = this.#sql.leaf.get(leaf)
      if (row === undefined)
        throw new StoreError('STORE_DAMAGED', `leaf ${leaf} of the log is missing`)
      return readBinary(row, 'hashes').subarray(at, at + HASH_BYTES)
    })
    return { size, peaks }
  }
}

import type { DatabaseSync } from 'node:sqlite'
import {
  type Block,
  type Frontier,
  frontierNodes,
  grown,
  HASH_BYTES,
  headerOf,
  headerText,
  leafHash,
  nodePlace,
} from '../../chain/index.ts'
import { StoreError } from '../errors.ts'
import { bytesOf } from './rows.ts'
import { Query } from './statements.ts'

/**
 * `tree`: the Merkle log over the headers. A row for each block holds the hashes of the nodes that
 * its leaf completed, the leaf first: two on average, at the end of the table, never changed again.
 */
export const TREE = {
  tables: 'CREATE TABLE tree (height INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;',
  filler: (database: DatabaseSync) => {
    const rows = new TreeRows(database)
    return (block: Block) => rows.add(block)
  },
}

/** Lets the log grow, inside the transaction of each block. */
export class TreeRows {
  readonly #insert: Query
  readonly #size: Query
  readonly #node: Query
  /** Of the table as this connection sees it; null until it is read. */
  #frontier: Frontier | null = null

  constructor(database: DatabaseSync) {
    this.#insert = new Query(database, 'INSERT INTO tree (height, hashes) VALUES (?, ?)')
    this.#size = new Query(database, 'SELECT height FROM tree ORDER BY height DESC LIMIT 1')
    this.#node = new Query(database, 'SELECT hashes FROM tree WHERE height = ?')
  }

  /** Adds the leaf of `block`. Errors: STORE_DAMAGED when the rows before it are not there. */
  add(block: Block): void {
    const before = this.#frontier ?? this.#read()
    if (before.size !== block.height) {
      throw new StoreError('STORE_DAMAGED', `the log has ${before.size} leaves at ${block.height}`)
    }
    const leaf = leafHash(Buffer.from(headerText(headerOf(block))))
    const { frontier, nodes } = grown(before, leaf)
    this.#insert.run(block.height, Buffer.concat(nodes))
    this.#frontier = frontier
  }

  /** To be called when what was added has been taken back. */
  reset(): void {
    this.#frontier = null
  }

  #read(): Frontier {
    const last = this.#size.get()
    const size = last === undefined ? 0 : Number(last[0]) + 1
    const peaks = frontierNodes(size).map((node) => {
      const { leaf, at } = nodePlace(node)
      const row = this.#node.get(leaf)
      if (row === undefined)
        throw new StoreError('STORE_DAMAGED', `leaf ${leaf} of the log is missing`)
      return bytesOf(row, 'hashes').subarray(at, at + HASH_BYTES)
    })
    return { size, peaks }
  }
}

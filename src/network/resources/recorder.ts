import type { Clock } from '../../base/clock.ts'
import type { JsonObject } from '../../base/json.ts'
import { uuidV7 } from '../../base/uuid.ts'
import type { Change, Written } from '../../ledger/index.ts'
import type { Caller } from './caller.ts'
import type { ResourceChange, ResourceDatabase } from './database.ts'
import { recordsOf, type TransactionRecord, transactionOf } from './transaction-record.ts'

/** Where a request's changes were recorded. */
export interface Recorded extends Written {
  /** The packed position of the first write, or of the transaction where there is none. */
  readonly revision: number
}

/** What is recorded beside a transaction and its writes. */
export interface Beside {
  readonly events?: readonly JsonObject[]
  /** In front of all else. */
  readonly also?: readonly Change[]
}

/** Makes the blocks of one network: one for each transaction. */
export class Recorder {
  readonly #database: ResourceDatabase
  readonly #clock: Clock
  /** What records the network itself in front of its first change; null once that is done. */
  #deployment: readonly Change[] | null

  constructor(database: ResourceDatabase, clock: Clock, deployment: readonly Change[] | null) {
    this.#database = database
    this.#clock = clock
    this.#deployment = deployment
  }

  /** A transaction of `type`, a qualified name, that happens now. */
  transaction(type: string, fields: JsonObject): TransactionRecord {
    const nowMs = this.#clock.now()
    return transactionOf(type, uuidV7(nowMs), nowMs, fields)
  }

  /**
   * Records `also`, `transaction`, the historian's record of it with its `events`, and `writes`, in
   * one block.
   */
  async record(
    transaction: TransactionRecord,
    caller: Caller,
    writes: readonly ResourceChange[],
    { events = [], also = [] }: Beside = {},
  ): Promise<Recorded> {
    const before = [...(this.#deployment ?? []), ...also]
    const changes = [...recordsOf(transaction, caller, events), ...writes]
    const written = await this.#database.record(changes, before)
    // Only now: when the block was refused, the next change has to bring the network along again.
    this.#deployment = null
    const first = before.length + (writes.length > 0 ? 2 : 0)
    return { ...written, revision: written.position + first }
  }
}

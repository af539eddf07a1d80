import assert from 'node:assert/strict'
import type { Clock } from '../../base/clock.ts'
import { packPosition } from '../../chain/index.ts'
import { type IndexOutcome, StoreError, type StoreErrorCode } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Platform, Thread } from '../platform.ts'
import type { RequestConditions } from '../request-conditions.ts'
import { bytesOf, checkUnit, type Earlier, type Outcome, type UnitOfWork } from '../unit-of-work.ts'
import { type EncodedUnit, encodeUnit } from './batch-text.ts'
import type { CommittedBlock, FromWriter, ToWriter, WriterStart } from './messages.ts'

/** Entries of one block, beyond which a unit of work waits for the next; one larger goes alone. */
const BLOCK_ENTRIES = 1_024
/** Bytes of one block, likewise. */
const BLOCK_BYTES = 4 * 1024 * 1024
/** The writer keeps little; with the usual 48 MB its garbage would be most of a node's memory. */
const YOUNG_MB = 12
/** Turns of the event loop for which a block is held open while more arrives. */
const GATHER_TURNS_MAX = 16
/** Blocks that the thread has at once: one that it writes, and the next laid ready for it. */
const BLOCKS_UNDER_WAY_MAX = 2
/** A crowd is served in parts of this share: the thread writes one while the next is taken in. */
const CROWD_SHARE = 0.4
/** Fewer than this are no crowd: they share a block. */
const CROWD_MIN = 8
/** Bytes that may wait; more is refused with WRITER_BUSY. */
const QUEUE_BYTES_MAX = 128 * 1024 * 1024
/** Units of work that may wait. */
const QUEUE_UNITS_MAX = 20_000

/** Where a unit of work was recorded. */
export interface Recorded {
  readonly height: number
  /** The index of its first entry in the block. */
  readonly index: number
  /** The id of the block. */
  readonly blockId: string
  /** The SHA-256 of each content that an erased entry named, when there are any. */
  readonly freed?: readonly string[]
}

/** The packed position of the first entry. */
export function positionOf(recorded: Recorded | Earlier): number {
  return 'entries' in recorded ? recorded.position : packPosition(recorded.height, recorded.index)
}

interface Waiting {
  /** The unit of work; empty when it was sent. */
  encoded: EncodedUnit
  readonly entries: number
  readonly terms: RequestConditions | undefined
  readonly bytes: number
  readonly resolve: (recorded: Recorded | Earlier) => void
  readonly reject: (error: Error) => void
}

/** Changes of indexes that may wait. */
const INDEX_CHANGES_MAX = 100

/** Who asked for a change of the indexes. */
interface IndexChange {
  readonly resolve: (outcome: IndexOutcome) => void
  readonly reject: (error: Error) => void
}

/**
 * Group commit: takes everything that came while the last block was being written, makes one block
 * of it, and answers when that is durable. So a lone write waits for nobody, and a thousand at once
 * share one wait for the disk. The work itself is done in a thread of its own (`thread.ts`).
 *
 * A crowd of clients that each wait for an answer before they go on would come all together and wait
 * all together, the event loop resting while the thread works and the other way round. So a block is
 * closed when it holds a good part of the crowd, and while it is written the rest is taken in:
 * docs/decisions/0083-overlapping-blocks.md.
 */
export class LedgerWriter {
  readonly #clock: Clock
  readonly #worker: Thread
  /** What waits for the next block, oldest first. */
  #queue: Waiting[] = []
  /** The blocks that the thread has, oldest first. */
  #underWay: Waiting[][] = []
  /** So many waiting units are a block, without looking whether more arrive. */
  #enough = Number.POSITIVE_INFINITY
  /** Changes of indexes that the thread was given, oldest first. */
  #indexChanges: IndexChange[] = []
  #waitingBytes = 0
  #scheduled = false
  #stopped: LedgerError | null = null
  /** Why nothing shall be written although it could. */
  #heldBack: LedgerError | null = null
  /** Why the last change could not be stored (STORE_FULL, STORE_DAMAGED), until one is. */
  #failed: LedgerError | null = null
  #closing = false
  /** Resolves when the thread has ended, for whatever reason. */
  readonly #ended: Promise<void>

  /** Called with each block that was stored. */
  onStored: (block: CommittedBlock) => void = () => {}
  /**
   * Called when a batch is done, before anyone is answered: with the packed position of the last entry
   * of its block, or null when nothing of it could be done.
   */
  onCommit: (last: number | null) => void = () => {}
  /** Databases that are changed by their owner alone: `LedgerService.ownDatabase`. */
  readonly owned = new Set<string>()

  private constructor(worker: Thread, clock: Clock) {
    this.#worker = worker
    this.#clock = clock
    worker.on('message', (message: FromWriter) => this.#receive(message))
    worker.on('error', (error) => this.#stop(`the writer's thread failed: ${error.message}`))
    this.#ended = new Promise((resolve) => {
      worker.on('exit', () => {
        this.#stop("the writer's thread has ended")
        resolve()
      })
    })
  }

  /** Starts the thread and opens the store in it. Errors: StoreError. */
  static async start(
    start: WriterStart,
    clock: Clock,
    platform: Pick<Platform, 'startThread'>,
  ): Promise<LedgerWriter> {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const program = new URL(`./thread.${extension}`, import.meta.url)
    const worker = platform.startThread(program, {
      name: 'ledger-writer',
      workerData: start,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    })
    await new Promise<void>((resolve, reject) => {
      const failed = ({ message }: Error) =>
        reject(new StoreError('STORE_FAILED', `the writer's thread cannot start: ${message}`))
      worker.once('error', failed)
      worker.once('message', (message: FromWriter) => {
        worker.off('error', failed)
        if ('failed' in message)
          reject(new StoreError(message.code as StoreErrorCode, message.failed))
        else resolve()
      })
    })
    return new LedgerWriter(worker, clock)
  }

  /** Why nothing can be written any more, or could be the last time, or null. */
  get refuses(): LedgerError | null {
    return this.#stopped ?? this.#heldBack ?? this.#failed
  }

  /** Refuses every change from now on with `error`; what waits is written. */
  holdBack(error: LedgerError): void {
    this.#heldBack ??= error
  }

  /** Units of work that wait or are being written. */
  get depth(): number {
    return this.#underWay.reduce((sum, block) => sum + block.length, this.#queue.length)
  }

  /** The size of these. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /**
   * Records `unit`: when the promise resolves, it is durable. With `terms` it may turn out to have
   * been recorded before.
   * Errors: LedgerError with the code of what stands in the way; then nothing of it was done.
   */
  record(unit: UnitOfWork): Promise<Recorded>
  record(unit: UnitOfWork, terms: undefined, byOwner: true): Promise<Recorded>
  record(unit: UnitOfWork, terms: RequestConditions | undefined): Promise<Recorded | Earlier>
  record(
    unit: UnitOfWork,
    terms?: RequestConditions,
    byOwner = false,
  ): Promise<Recorded | Earlier> {
    return new Promise((resolve, reject) => {
      if (this.#stopped !== null) throw this.#stopped
      if (this.#heldBack !== null) throw this.#heldBack
      if (this.#closing) throw new LedgerError('WRITER_STOPPED', 'the node is closing')
      checkUnit(unit)
      if (!byOwner && this.owned.size > 0) refuseOwned(unit, this.owned)
      const bytes = bytesOf(unit)
      if (
        this.#queue.length >= QUEUE_UNITS_MAX ||
        (this.#waitingBytes > 0 && this.#waitingBytes + bytes > QUEUE_BYTES_MAX)
      ) {
        throw new LedgerError('WRITER_BUSY', 'too many changes are waiting; try again shortly')
      }
      const encoded = encodeUnit(unit)
      this.#queue.push({ encoded, entries: unit.length, terms, bytes, resolve, reject })
      this.#waitingBytes += bytes
      // An owner has gathered what it sends.
      if (byOwner || this.#queue.length >= this.#enough) this.#next()
      else this.#writeSoon()
    })
  }

  /** Declares or removes an index. Errors: WRITER_STOPPED, WRITER_BUSY, STORE_FULL, STORE_DAMAGED. */
  changeIndex(index: 'add' | 'remove', name: { db: string; path: string }): Promise<IndexOutcome> {
    return new Promise((resolve, reject) => {
      if (this.#stopped !== null) throw this.#stopped
      if (this.#closing) throw new LedgerError('WRITER_STOPPED', 'the node is closing')
      if (this.#indexChanges.length >= INDEX_CHANGES_MAX) {
        throw new LedgerError('WRITER_BUSY', 'too many changes are waiting; try again shortly')
      }
      this.#indexChanges.push({ resolve, reject })
      this.#post({ index, ...name })
    })
  }

  /** Writes what waits, then lets go of the store. Nothing more is taken. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#stopped === null) this.#next()
    else void this.#worker.terminate()
    await this.#ended
  }

  /**
   * When no more arrives: a crowd comes in over several turns of the event loop, and one block of all
   * of it costs far less than a small one at once and the rest after. A lone write waits one turn.
   */
  #writeSoon(): void {
    if (this.#underWay.length > 0 || this.#scheduled) return
    this.#scheduled = true
    let waiting = this.#queue.length
    let turns = 0
    const turn = (): void => {
      turns += 1
      if (this.#queue.length > waiting && turns < GATHER_TURNS_MAX) {
        waiting = this.#queue.length
        setImmediate(turn)
        return
      }
      this.#scheduled = false
      this.#next()
    }
    setImmediate(turn)
  }

  /** Gives the thread the block of what waits, or has it close when nothing does. */
  #next(): void {
    if (this.#underWay.length === BLOCKS_UNDER_WAY_MAX || this.#stopped !== null) return
    if (this.#queue.length > 0) this.#writeBlock()
    else if (this.#closing && this.#underWay.length === 0 && this.#indexChanges.length === 0) {
      this.#post({ close: true })
    }
  }

  #writeBlock(): void {
    let entries = 0
    let bytes = 0
    let count = 0
    for (const waiting of this.#queue) {
      entries += waiting.entries
      bytes += waiting.bytes
      if (count > 0 && (entries > BLOCK_ENTRIES || bytes > BLOCK_BYTES)) break
      count += 1
    }
    const block = this.#queue.splice(0, count)
    this.#underWay.push(block)
    const units = block.map(({ encoded }) => encoded)
    const terms = termsIn(block)
    this.#post(
      { units, nowMs: this.#clock.now(), ...(terms === null ? {} : { terms }) },
      units.flatMap((encoded) => (typeof encoded === 'string' ? [] : [encoded.buffer])),
    )
    for (const waiting of block) waiting.encoded = ''
  }

  #post(message: ToWriter, moved: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, moved)
  }

  #receive(message: FromWriter): void {
    // It ends by itself now: a thread that is cut off in the middle can take the process with it.
    if ('closed' in message) return
    if ('maintenanceFailed' in message) {
      this.#stop(message.maintenanceFailed)
      return
    }
    if ('indexed' in message) {
      this.#receiveIndexed(message)
      return
    }
    const crowd = this.depth
    this.#enough = crowd < CROWD_MIN ? Number.POSITIVE_INFINITY : Math.ceil(crowd * CROWD_SHARE)
    const answered = this.#underWay.shift() ?? []
    for (const { bytes } of answered) this.#waitingBytes -= bytes
    if ('outcomes' in message) {
      const { block } = message
      if (block !== null) {
        this.#failed = null
        this.onStored(block)
      }
      this.onCommit(block === null ? null : packPosition(block.height, block.entries - 1))
      for (const [at, waiting] of answered.entries()) {
        const outcome = message.outcomes === null ? { index: at } : message.outcomes[at]
        const error = settle(waiting, message.block, outcome)
        if (error?.code === 'STORE_DAMAGED') this.#failed ??= error
      }
    } else if ('refused' in message) {
      const what = message.unknown ? 'it is not known what was written' : 'nothing was written'
      // What refuses everything from now on is one failure, and told as one in the log.
      const cause = this.#failed
      const error = new LedgerError(message.refused, `${what}: ${message.reason}`, { cause })
      for (const waiting of answered) waiting.reject(error)
      if (message.stopped) this.#stop(message.reason, error)
      else this.#failed ??= error
    }
    // Before the answers go out: the thread works while they do.
    if (this.#closing || this.#queue.length >= this.#enough) this.#next()
    else if (this.#queue.length > 0) this.#writeSoon()
  }

  #receiveIndexed(message: Extract<FromWriter, { indexed: unknown }>): void {
    const change = this.#indexChanges.shift()
    if (message.indexed === null) {
      const { refused, reason, stopped } = message
      const what = stopped ? 'it is not known whether the index was changed' : 'nothing was changed'
      const error = new LedgerError(refused, `${what}: ${reason}`)
      change?.reject(error)
      if (stopped) this.#stop(reason, error)
    } else {
      this.onCommit(null)
      change?.resolve(message.indexed)
    }
    if (this.#closing) this.#next()
  }

  #stop(reason: string, cause?: LedgerError): void {
    this.#stopped ??= new LedgerError('WRITER_STOPPED', reason, { cause })
    for (const waiting of [...this.#underWay.flat(), ...this.#queue]) waiting.reject(this.#stopped)
    for (const change of this.#indexChanges) change.reject(this.#stopped)
    this.#underWay = []
    this.#indexChanges = []
    this.#queue = []
    this.#waitingBytes = 0
  }
}

/** The terms of what is written, by place, or null when nothing has any. */
function termsIn(units: readonly Waiting[]): Map<number, RequestConditions> | null {
  let found: Map<number, RequestConditions> | null = null
  for (const [at, { terms }] of units.entries()) {
    if (terms !== undefined) found = (found ?? new Map()).set(at, terms)
  }
  return found
}

/** Errors: OWNED_BY_NETWORK. */
function refuseOwned(unit: UnitOfWork, owned: ReadonlySet<string>): void {
  for (const { db } of unit) {
    if (!owned.has(db)) continue
    throw new LedgerError('OWNED_BY_NETWORK', `database ${db} is changed through its network only`)
  }
}

/** Answers one unit; the error when it was refused. */
function settle(
  { resolve, reject }: Waiting,
  block: { height: number; id: string } | null,
  outcome: Outcome | undefined,
): LedgerError | null {
  assert(outcome !== undefined)
  if ('code' in outcome) {
    const error = new LedgerError(outcome.code, outcome.message)
    reject(error)
    return error
  }
  if ('position' in outcome) {
    resolve(outcome)
    return null
  }
  assert(block !== null)
  const { index, freed } = outcome
  const recorded = { height: block.height, index, blockId: block.id }
  resolve(freed === undefined ? recorded : { ...recorded, freed })
  return null
}

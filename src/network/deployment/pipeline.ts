import assert from 'node:assert/strict'
import type { Clock } from '../../base/clock.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import type { OwnDatabase, UnitOfWork, Written } from '../../ledger/index.ts'
import { NetworkError } from '../errors.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import type { Caller, Stamp } from '../resources/transaction.ts'
import {
  type ChangeRequest,
  errorOf,
  type FromThread,
  type ToThread,
} from '../transactions/messages.ts'
import type { NetworkThread, ThreadEnd } from './network-thread.ts'

/** Maximum number of unanswered requests of one network. */
const REQUESTS_MAX = 10_000
/** Maximum operations per block. A decision with more operations gets a block of its own. */
const OPERATIONS_MAX = 1_000
/** Maximum attempts to decide one request. An attempt fails if another process records a change before the decision. */
const ATTEMPTS_MAX = 8
/** Maximum characters of a block's operations. A longer decision gets a block of its own. */
const CHARACTERS_MAX = 4 * 1024 * 1024

/** The position of a request's changes. */
export interface WritePosition extends Written {
  /** The packed position of the first write, or of the transaction's record if the transaction wrote nothing. */
  readonly revision: number
}

/** The durable outcome of a request. */
export interface Outcome {
  readonly reply: Json
  /** Null if the request changed nothing. */
  readonly recorded: WritePosition | null
}

export interface PipelineParts {
  readonly database: OwnDatabase
  readonly clock: Clock
  /** Starts the network's thread. `isRecorded`: whether the ledger contains the network. */
  startThread(isRecorded: boolean): Promise<NetworkThread>
  /** Called with the events of a block after its commit. */
  publish(height: number, events: readonly JsonObject[]): void
  /** Number of blocks whose changes this process has applied; null if no other process changes the network. */
  known(): number | null
  /** Whether `error` occurred because another process has changed the database or recorded this network first. */
  isOvertaken(error: Error): Promise<boolean>
  /** Receives the console output of scripts. */
  log(level: string, text: string): void
}

/** A request that is not answered yet. */
interface Pending {
  readonly message: Extract<ToThread, { id: number }>
  /** Number of decisions discarded because another process changed the database first. */
  conflicts: number
  resolve(settled: Settled): void
  reject(error: Error): void
}

type Answer = Extract<FromThread, { id: number }>

/** An answer of the thread. `written` is the position of the changes, or null if the request changed nothing. */
interface Settled {
  readonly answer: Answer
  readonly written: Written | null
}

/** A request with its decision. The answer is sent when all earlier decisions are durable. */
interface Decided {
  readonly pending: Pending
  readonly answer: Answer
}

/** A task during which the thread processes no requests. */
interface Exclusive {
  run(): Promise<void>
  reject(error: Error): void
}

/**
 * Carries every change of one network from the main thread through the network's thread to the ledger writer.
 *
 * The thread decides requests in order. A decision is the changes to record, or a refusal, and builds on all earlier
 * decisions, even if they are not durable yet. Decisions made while a block is being written go into the next block.
 * A block contains all changes of a decision or none. An answer, even a refusal, is sent when all earlier decisions
 * are durable.
 *
 * If the ledger refuses a block, the pipeline starts a new thread from the ledger. All requests whose decisions are
 * in that block or build on it fail with the same error. But if the ledger refused the block because another process
 * changed the database first, the new thread decides these requests again.
 *
 * If the thread dies, the request that it was processing fails. Once the earlier decisions are durable, a new thread
 * decides the remaining requests.
 */
export class Pipeline {
  readonly #parts: PipelineParts
  readonly #uuids = new UuidGenerator()
  #lastId = 0
  #requests = 0
  /** Requests not sent to the thread yet, and exclusive tasks not started yet, oldest first. */
  readonly #backlog: (Pending | Exclusive)[] = []
  /** Requests that the thread has not answered, oldest first. */
  readonly #sent = new Map<number, Pending>()
  /** Decisions not passed to the writer yet, oldest first. */
  #decided: Decided[] = []
  #isWriting = false
  #isRecorded: boolean
  #thread: NetworkThread | null = null
  /** Resolves when all earlier threads have exited. */
  #ended: Promise<unknown> = Promise.resolve()
  #isStarting = false
  /** Whether an exclusive task is running. */
  #isExclusive = false
  /** Number of blocks that the pending decisions take into account; null if no other process changes the network. */
  #known: number | null = null
  /** The error for further requests after `close`; null before. */
  #closed: Error | null = null

  /** `isRecorded`: whether the ledger contains the network. */
  constructor(parts: PipelineParts, isRecorded: boolean) {
    this.#parts = parts
    this.#isRecorded = isRecorded
  }

  /** Whether the ledger contains the network. */
  get isRecorded(): boolean {
    return this.#isRecorded
  }

  /** Returns the id and the time of a new transaction. */
  stamp(): Stamp {
    const nowMs = this.#parts.clock.now()
    return { transactionId: this.#uuids.next(nowMs), nowMs }
  }

  /** Makes a change; resolves when it is durable. Errors: as for `Decider.decide`; NETWORK_BUSY, NETWORK_REMOVED. */
  async request(change: ChangeRequest, caller: Caller): Promise<Outcome> {
    const message = { id: this.#nextId(), caller, stamp: this.stamp(), change }
    const { answer, written } = await this.#send(message)
    if ('failure' in answer) throw errorOf(answer.failure)
    assert('decision' in answer)
    const { reply, unit, transactionAt, writeAt } = answer.decision
    if (unit === null || written === null) return { reply, recorded: null }
    const position = written.position + transactionAt
    return { reply, recorded: { ...written, position, revision: written.position + writeAt } }
  }

  /** Evaluates a condition on durable resources. Errors: NETWORK_BUSY, NETWORK_INVALID. */
  async evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    try {
      const { answer } = await this.#send({ id: this.#nextId(), condition })
      if ('failure' in answer) throw errorOf(answer.failure)
      assert('values' in answer)
      return answer.values
    } catch (error) {
      // A condition that stops the thread counts as a condition that throws.
      const isEnded = error instanceof NetworkError && error.code.startsWith('PROCESSOR_')
      if (isEnded) return condition.resources.map(() => null)
      throw error
    }
  }

  /** Runs `work` after all earlier requests are durable. Later requests wait until `work` has finished. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#closed !== null) throw this.#closed
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#backlog.push({ run: () => work().then(resolve, reject), reject })
    this.#advance()
    return promise
  }

  /** Records a unit of work. Must be called within an exclusive task. */
  async record(unit: UnitOfWork): Promise<void> {
    const { height } = await this.#parts.database.record(unit, this.#known)
    this.#isRecorded = true
    if (this.#known !== null) this.#known = height + 1
  }

  /** Called when another process has recorded the network. */
  recordedElsewhere(): void {
    this.#isRecorded = true
  }

  /**
   * Replaces the thread with `thread`. If `thread` is null, the next request starts a new thread. Resolves when the
   * previous thread has exited.
   */
  async exchange(thread: NetworkThread | null): Promise<void> {
    const before = this.#thread
    this.#thread = null
    // Attaches the thread before waiting for the previous one, so that no request starts another thread.
    if (thread !== null) this.#attach(thread)
    this.#ended = Promise.all([this.#ended, before?.end()])
    await this.#ended
  }

  /** Refuses all pending and further requests with `error`, and stops the thread. */
  async close(error: Error): Promise<void> {
    this.#closed ??= error
    for (const { reject } of [...this.#sent.values(), ...this.#backlog.splice(0)]) reject(error)
    this.#sent.clear()
    await this.exchange(null)
  }

  #nextId(): number {
    this.#lastId += 1
    return this.#lastId
  }

  async #send(message: Pending['message']): Promise<Settled> {
    if (this.#closed !== null) throw this.#closed
    if (this.#requests >= REQUESTS_MAX) {
      const text = 'too many requests wait for this network; try again'
      throw new NetworkError('NETWORK_BUSY', text)
    }
    this.#requests += 1
    const { promise, resolve, reject } = Promise.withResolvers<Settled>()
    this.#backlog.push({ message, conflicts: 0, resolve, reject })
    this.#advance()
    try {
      return await promise
    } finally {
      this.#requests -= 1
    }
  }

  /** Sends requests up to the next exclusive task, and starts the task when nothing else is in progress. */
  #advance(): void {
    while (!this.#isExclusive) {
      const [next] = this.#backlog
      if (next === undefined) return
      if ('run' in next) {
        if (this.#sent.size > 0 || this.#isRecording || this.#isStarting) return
        this.#backlog.shift()
        this.#isExclusive = true
        this.#begin()
        void next.run().finally(() => {
          this.#isExclusive = false
          this.#advance()
        })
        return
      }
      if (this.#thread === null) {
        // A new thread loads the durable resources, so it must not start while a block is being written.
        if (!this.#isStarting && !this.#isRecording) this.#start()
        return
      }
      this.#backlog.shift()
      if (this.#sent.size === 0 && !this.#isRecording) this.#begin()
      this.#sent.set(next.message.id, next)
      this.#thread.post(next.message)
    }
  }

  /** Sets `#known`. Called before a request is decided on top of durable resources only. */
  #begin(): void {
    const known = this.#parts.known()
    // `known()` can lag behind the newest blocks of this process. `#known`, which `record` and `#written` set, includes
    // these blocks.
    this.#known = known === null ? null : Math.max(known, this.#known ?? 0)
  }

  get #isRecording(): boolean {
    return this.#isWriting || this.#decided.length > 0
  }

  #start(): void {
    this.#isStarting = true
    this.#parts
      .startThread(this.#isRecorded)
      .then(
        (thread) => this.#attach(thread),
        (error: Error) => {
          const waiting = this.#backlog.splice(0)
          this.#backlog.push(...waiting.filter((one) => 'run' in one))
          for (const one of waiting) if ('message' in one) one.reject(error)
        },
      )
      .finally(() => {
        this.#isStarting = false
        this.#advance()
      })
  }

  #attach(thread: NetworkThread): void {
    if (this.#closed !== null) {
      void thread.end()
      return
    }
    this.#thread = thread
    thread.listen({
      message: (message) => {
        if ('logged' in message) this.#parts.log(message.logged.level, message.logged.text)
        if (!('id' in message)) return
        // If there is no entry, the request was refused together with an earlier block.
        const pending = this.#sent.get(message.id)
        if (pending === undefined) return
        this.#sent.delete(message.id)
        // A condition changes nothing and reads durable resources only, so its answer does not wait for earlier
        // decisions.
        if ('condition' in pending.message) pending.resolve({ answer: message, written: null })
        else this.#decided.push({ pending, answer: message })
        this.#write()
        this.#advance()
      },
      ended: (end) => this.#lost(end),
    })
  }

  /** Called when the thread has died: rejects the request that it was processing, and queues all others again. */
  #lost(end: ThreadEnd): void {
    this.#thread = null
    const [current, ...others] = this.#sent.values()
    this.#sent.clear()
    this.#backlog.unshift(...others)
    const error =
      end === 'DEADLINE'
        ? new NetworkError('PROCESSOR_DEADLINE', 'the transaction took too long: out of time')
        : new NetworkError('PROCESSOR_MEMORY', 'the transaction was ended: out of memory')
    current?.reject(error)
    this.#advance()
  }

  /** Passes the next batch of decisions to the writer, unless a block is being written. */
  #write(): void {
    while (!this.#isWriting && this.#decided.length > 0) {
      const batch = this.#nextBatch()
      const unit = batch.flatMap(unitOf)
      if (unit.length === 0) {
        for (const { pending, answer } of batch) pending.resolve({ answer, written: null })
        continue
      }
      this.#isWriting = true
      this.#parts.database.record(unit, this.#known).then(
        (written) => this.#written(batch, written),
        (error: unknown) =>
          this.#refused(batch, error instanceof Error ? error : new Error(String(error))),
      )
    }
  }

  #nextBatch(): Decided[] {
    let operations = 0
    let characters = 0
    const end = this.#decided.findIndex((decided, at) => {
      const unit = unitOf(decided)
      operations += unit.length
      for (const operation of unit) if ('text' in operation) characters += operation.text.length
      return at > 0 && (operations > OPERATIONS_MAX || characters > CHARACTERS_MAX)
    })
    return this.#decided.splice(0, end === -1 ? this.#decided.length : end)
  }

  #written(batch: readonly Decided[], written: Written): void {
    this.#isWriting = false
    this.#isRecorded = true
    if (this.#known !== null) this.#known = written.height + 1
    this.#thread?.post({ durable: batch.at(-1)?.pending.message.id ?? 0 })
    const events = batch.flatMap(({ answer }) =>
      'decision' in answer ? answer.decision.events : [],
    )
    this.#parts.publish(written.height, events)
    let { position } = written
    for (const decided of batch) {
      const { pending, answer } = decided
      pending.resolve({ answer, written: { ...written, position } })
      position += unitOf(decided).length
    }
    this.#write()
    this.#advance()
  }

  /** Discards the decisions of a refused block and all later decisions, which build on that block. */
  #refused(batch: readonly Decided[], error: Error): void {
    this.#isWriting = false
    const undone = [...batch, ...this.#decided].map(({ pending }) => pending)
    undone.push(...this.#sent.values())
    this.#decided = []
    this.#sent.clear()
    // The thread's state contains the refused changes, so the next request starts a new thread.
    void this.exchange(null)
    void this.#retried(undone, error).then(() => this.#advance())
    // Also called now, because `#retried` can wait for an exclusive task that only `#advance` starts.
    this.#advance()
  }

  /** Queues requests again if another process changed the database first; otherwise rejects them with `error`. */
  async #retried(undone: readonly Pending[], error: Error): Promise<void> {
    const isOvertaken = this.#known !== null && (await this.#parts.isOvertaken(error))
    if (isOvertaken) this.#isRecorded = true
    const again = undone.filter((pending) => {
      pending.conflicts += 1
      return isOvertaken && pending.conflicts < ATTEMPTS_MAX && this.#closed === null
    })
    const busy = new NetworkError(
      'NETWORK_BUSY',
      'other processes of the node keep changing this network; try again',
      { cause: error },
    )
    for (const pending of undone) {
      if (!again.includes(pending)) pending.reject(isOvertaken ? (this.#closed ?? busy) : error)
    }
    this.#backlog.unshift(...again)
  }
}

function unitOf({ answer }: Decided): UnitOfWork {
  return ('decision' in answer ? answer.decision.unit : null) ?? []
}

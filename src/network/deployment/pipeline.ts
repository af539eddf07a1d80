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

/** Requests of one network that may wait. */
const REQUESTS_MAX = 10_000
/** Operations of one block, beyond which a decision waits for the next; a larger one goes alone. */
const OPERATIONS_MAX = 1_000
/** How often a request is decided again because another process has changed the database first. */
const ATTEMPTS_MAX = 8
/** Characters of one block's operations, with the same rule. */
const CHARACTERS_MAX = 4 * 1024 * 1024

/** The position of a request's changes. */
export interface Recorded extends Written {
  /** The packed position of the first write, or of the transaction where there is none. */
  readonly revision: number
}

/** The outcome of a request when it is durable. */
export interface Outcome {
  readonly reply: Json
  /** Null when the request changed nothing. */
  readonly recorded: Recorded | null
}

export interface PipelineParts {
  readonly database: OwnDatabase
  readonly clock: Clock
  /** Starts the network's thread; `isRecorded` is whether the ledger has the network. */
  startThread(isRecorded: boolean): Promise<NetworkThread>
  /** Called with the events of a block when it is durable. */
  publish(height: number, events: readonly JsonObject[]): void
  /** Number of blocks that the network knows, if other processes change it too; otherwise null. */
  known(): number | null
  /** Whether `error` says that another process has changed the database, or recorded this network, first. */
  isOvertaken(error: Error): Promise<boolean>
  /** Receives the console output of scripts. */
  log(level: string, text: string): void
}

/** A request, until it is answered. */
interface Pending {
  readonly message: Extract<ToThread, { id: number }>
  /** How often it was decided on a state that another process had changed. */
  conflicts: number
  resolve(settled: Settled): void
  reject(error: Error): void
}

type Answer = Extract<FromThread, { id: number }>

/** An answer of the thread, and the position of its changes: null when it made none. */
interface Settled {
  readonly answer: Answer
  readonly written: Written | null
}

/** An answer that waits until all decisions before it are durable. */
interface Decided {
  readonly pending: Pending
  readonly answer: Answer
}

/** Work that is done while the network stands still. */
interface Exclusive {
  run(): Promise<void>
  reject(error: Error): void
}

/**
 * The way of all changes of one network: main thread, network thread, ledger writer.
 *
 * Requests go to the network's thread at once and are decided there in their order, each on top of all
 * that was decided before it. Decisions that arrive while a block is being written go into the next
 * block, all of them or none. An answer, also a refusal, is sent when all decisions before it are durable.
 * When a block is refused, everything that was decided on top of it is refused with the same error, and
 * another thread starts from the ledger. If another process has changed the database first, they are not
 * refused but decided again. When the thread dies, the request that it was at fails, and
 * another one takes the rest once the decisions are durable. So a crash leaves whole transactions.
 */
export class Pipeline {
  readonly #parts: PipelineParts
  readonly #uuids = new UuidGenerator()
  #lastId = 0
  #requests = 0
  /** Not sent to the thread yet. */
  readonly #backlog: (Pending | Exclusive)[] = []
  /** Sent and not answered, in their order. */
  readonly #sent = new Map<number, Pending>()
  /** Not handed to the writer yet. */
  #decided: Decided[] = []
  #isWriting = false
  #isRecorded: boolean
  #thread: NetworkThread | null = null
  /** Fulfilled when the threads before this one have ended. */
  #ended: Promise<unknown> = Promise.resolve()
  #isStarting = false
  /** Whether exclusive work runs. */
  #isHeld = false
  /** `PipelineParts.known` when the oldest decision that is not durable was begun. */
  #known: number | null = null
  /** Set when no more requests are taken. */
  #closed: Error | null = null

  /** `isRecorded` is whether the ledger has the network. */
  constructor(parts: PipelineParts, isRecorded: boolean) {
    this.#parts = parts
    this.#isRecorded = isRecorded
  }

  /** Whether the ledger has the network. */
  get isRecorded(): boolean {
    return this.#isRecorded
  }

  /** The id and the time of a transaction that happens now. */
  stamp(): Stamp {
    const nowMs = this.#parts.clock.now()
    return { transactionId: this.#uuids.next(nowMs), nowMs }
  }

  /** Has a request decided and recorded. Errors: its refusal; NETWORK_BUSY, NETWORK_REMOVED. */
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

  /** Evaluates a condition for durable resources. Errors: NETWORK_BUSY, NETWORK_INVALID. */
  async evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    try {
      const { answer } = await this.#send({ id: this.#nextId(), condition })
      if ('failure' in answer) throw errorOf(answer.failure)
      assert('values' in answer)
      return answer.values
    } catch (error) {
      // A condition that ends the thread counts as one that throws.
      const isEnded = error instanceof NetworkError && error.code.startsWith('PROCESSOR_')
      if (isEnded) return condition.resources.map(() => null)
      throw error
    }
  }

  /** Runs `work` when all requests before it are durable; those behind it wait until it has ended. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#closed !== null) throw this.#closed
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#backlog.push({ run: () => work().then(resolve, reject), reject })
    this.#advance()
    return promise
  }

  /** Records a unit inside exclusive work. */
  async record(unit: UnitOfWork): Promise<void> {
    const { height } = await this.#parts.database.record(unit, this.#known)
    this.#isRecorded = true
    if (this.#known !== null) this.#known = height + 1
  }

  /** Another process has recorded the network. */
  recordedElsewhere(): void {
    this.#isRecorded = true
  }

  /** Exchanges the thread inside exclusive work; null has one started when it is needed. */
  async exchange(thread: NetworkThread | null): Promise<void> {
    const before = this.#thread
    this.#thread = null
    // At once, so that no request starts another.
    if (thread !== null) this.#attach(thread)
    this.#ended = Promise.all([this.#ended, before?.end()])
    await this.#ended
  }

  /** Refuses all further requests with `error`, and ends the thread. */
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

  /** Sends the backlog, up to exclusive work; does that when nothing else is under way. */
  #advance(): void {
    while (!this.#isHeld) {
      const [next] = this.#backlog
      if (next === undefined) return
      if ('run' in next) {
        if (this.#sent.size > 0 || this.#isRecording || this.#isStarting) return
        this.#backlog.shift()
        this.#isHeld = true
        this.#begin()
        void next.run().finally(() => {
          this.#isHeld = false
          this.#advance()
        })
        return
      }
      if (this.#thread === null) {
        // A new thread starts from the durable resources.
        if (!this.#isStarting && !this.#isRecording) this.#start()
        return
      }
      this.#backlog.shift()
      if (this.#sent.size === 0 && !this.#isRecording) this.#begin()
      this.#sent.set(next.message.id, next)
      this.#thread.post(next.message)
    }
  }

  /** Called before the first decision on durable resources. */
  #begin(): void {
    const known = this.#parts.known()
    // Own blocks are known before they are followed.
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
        // Without an entry, the request was refused together with an earlier block.
        const pending = this.#sent.get(message.id)
        if (pending === undefined) return
        this.#sent.delete(message.id)
        // A condition changes nothing and is about durable resources, so its answer need not wait.
        if ('condition' in pending.message) pending.resolve({ answer: message, written: null })
        else this.#decided.push({ pending, answer: message })
        this.#write()
        this.#advance()
      },
      ended: (end) => this.#lost(end),
    })
  }

  /** The thread has died with the request that it was at. */
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

  /** Hands the decisions to the writer, unless it has some already. */
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

  /** The block was refused, and with it all that was decided on top of it. */
  #refused(batch: readonly Decided[], error: Error): void {
    this.#isWriting = false
    const undone = [...batch, ...this.#decided].map(({ pending }) => pending)
    undone.push(...this.#sent.values())
    this.#decided = []
    this.#sent.clear()
    // The thread's state includes the refused changes; the next request starts another thread.
    void this.exchange(null)
    void this.#retried(undone, error).then(() => this.#advance())
    // At once too: what is found out before a retry may wait for exclusive work.
    this.#advance()
  }

  /** Puts those requests back that another process has overtaken, and rejects the others. */
  async #retried(undone: readonly Pending[], error: Error): Promise<void> {
    const isOvertaken = this.#known !== null && (await this.#parts.isOvertaken(error))
    if (isOvertaken) this.#isRecorded = true
    const again = undone.filter((pending) => {
      pending.conflicts += 1
      return isOvertaken && pending.conflicts < ATTEMPTS_MAX && this.#closed === null
    })
    const busy = new NetworkError(
      'NETWORK_BUSY',
      'other processes of the node change this network all the time; try again',
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

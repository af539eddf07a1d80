import type { Clock } from '../../base/clock.ts'
import type { Json, JsonObject } from '../../base/json.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import type { OwnDatabase, UnitOfWork, Written } from '../../ledger/index.ts'
import { NetworkError } from '../errors.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import type { Caller, Stamp } from '../resources/transaction.ts'
import {
  type ChangeRequest,
  type Decision,
  errorOf,
  type FromThread,
  type LogLine,
  type ToThread,
} from '../transactions/messages.ts'
import type { NetworkThread, ThreadEnd } from './network-thread.ts'

/** Requests of one network that may wait. */
const REQUESTS_MAX = 10_000
/** Operations of one block, beyond which a decision waits for the next; a larger one goes alone. */
const OPERATIONS_MAX = 1_000
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
  /** Receives the console output of scripts. */
  log(level: string, text: string): void
}

/** A request that waits for the thread's answer. */
interface Pending {
  readonly id: number
  /** Its message to the thread. */
  readonly message: ToThread
  /** The thread answered. */
  answered(answer: Extract<FromThread, { id: number }>): void
  /** Nobody will answer. */
  failed(error: Error): void
}

/** A decision of the thread, which is answered when all decisions before it are durable. */
interface Decided {
  readonly id: number
  /** Null for a refusal. */
  readonly decision: Decision | null
  durable(written: Written | null, offset: number): void
  failed(error: Error): void
}

/** Work that is done while the network stands still. */
interface Exclusive {
  run(): Promise<void>
  failed(error: Error): void
}

/**
 * The way of all changes of one network: main thread, network thread, ledger writer.
 *
 * Requests go to the network's thread at once and are decided there in their order, each on top of all
 * that was decided before it. Decisions that arrive while a block is being written go into the next
 * block, all of them or none. An answer, also a refusal, is sent when all decisions before it are durable.
 * When a block is refused, everything that was decided on top of it is refused with the same error, and
 * the thread starts again from the ledger. When the thread dies, the request that it was at fails, and
 * another thread takes the rest once the decisions are durable. So a crash leaves whole transactions.
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
  #isStarting = false
  /** Whether exclusive work runs. */
  #isHeld = false
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
  request(change: ChangeRequest, caller: Caller): Promise<Outcome> {
    const outcome = Promise.withResolvers<Outcome>()
    const { resolve, reject: failed } = outcome
    const id = this.#nextId()
    this.#send({
      id,
      message: { id, caller, stamp: this.stamp(), change },
      answered: (answer) => {
        if ('logged' in answer) this.#log(answer.logged)
        this.#decide(
          'decision' in answer ? madeOf(answer, resolve, failed) : refusedOf(answer, failed),
        )
      },
      failed,
    })
    return this.#counted(outcome.promise)
  }

  /** Evaluates a condition for durable resources. Errors: NETWORK_BUSY, NETWORK_INVALID. */
  evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    const values = Promise.withResolvers<readonly (boolean | null)[]>()
    const id = this.#nextId()
    this.#send({
      id,
      message: { id, condition },
      answered: (answer) => {
        if ('values' in answer) values.resolve(answer.values)
        if ('failure' in answer) values.reject(errorOf(answer.failure))
      },
      failed: (error) => {
        // A condition that ends the thread counts as one that throws.
        const isEnded = error instanceof NetworkError && error.code.startsWith('PROCESSOR_')
        if (isEnded) values.resolve(condition.resources.map(() => null))
        else values.reject(error)
      },
    })
    return this.#counted(values.promise)
  }

  /** Runs `work` when all requests before it are durable; those behind it wait until it has ended. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = Promise.withResolvers<Result>()
    if (this.#closed !== null) throw this.#closed
    const { resolve, reject: failed } = result
    this.#backlog.push({ run: () => work().then(resolve, failed), failed })
    this.#advance()
    return result.promise
  }

  /** Records a unit inside exclusive work. */
  async record(unit: UnitOfWork): Promise<void> {
    await this.#parts.database.record(unit)
    this.#isRecorded = true
  }

  /** Exchanges the thread inside exclusive work; null has one started when it is needed. */
  async exchange(thread: NetworkThread | null): Promise<void> {
    const before = this.#thread
    this.#thread = null
    await before?.end()
    if (thread !== null) this.#attach(thread)
  }

  /** Refuses all further requests with `error`, and ends the thread. */
  async close(error: Error): Promise<void> {
    this.#closed ??= error
    for (const pending of [...this.#sent.values(), ...this.#backlog.splice(0)])
      pending.failed(error)
    this.#sent.clear()
    await this.exchange(null)
  }

  #nextId(): number {
    if (this.#requests >= REQUESTS_MAX) {
      throw new NetworkError('NETWORK_BUSY', 'too many requests wait for this network; try again')
    }
    this.#lastId += 1
    return this.#lastId
  }

  #counted<Result>(promise: Promise<Result>): Promise<Result> {
    this.#requests += 1
    return promise.finally(() => {
      this.#requests -= 1
    })
  }

  #send(pending: Pending): void {
    if (this.#closed === null) {
      this.#backlog.push(pending)
      this.#advance()
    } else pending.failed(this.#closed)
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
      this.#sent.set(next.id, next)
      this.#thread.post(next.message)
    }
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
          for (const one of waiting) if ('id' in one) one.failed(error)
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
        if (!('id' in message)) return
        // Without an entry, the request was refused together with an earlier block.
        const pending = this.#sent.get(message.id)
        this.#sent.delete(message.id)
        pending?.answered(message)
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
    current?.failed(
      end === 'DEADLINE'
        ? new NetworkError('PROCESSOR_DEADLINE', 'the transaction took too long: out of time')
        : new NetworkError('PROCESSOR_MEMORY', 'the transaction was ended: out of memory'),
    )
    this.#advance()
  }

  #log(lines: readonly LogLine[]): void {
    for (const { level, text } of lines) this.#parts.log(level, text)
  }

  #decide(decided: Decided): void {
    this.#decided.push(decided)
    this.#write()
  }

  /** Hands the decisions to the writer, unless it has some already. */
  #write(): void {
    while (!this.#isWriting && this.#decided.length > 0) {
      const batch = this.#nextBatch()
      const unit = batch.flatMap(({ decision }) => decision?.unit ?? [])
      if (unit.length === 0) {
        for (const { durable } of batch) durable(null, 0)
        continue
      }
      this.#isWriting = true
      this.#parts.database.record(unit).then(
        (written) => this.#written(batch, written),
        (error: unknown) =>
          this.#refused(batch, error instanceof Error ? error : new Error(String(error))),
      )
    }
  }

  #nextBatch(): Decided[] {
    let operations = 0
    let characters = 0
    const end = this.#decided.findIndex(({ decision }, at) => {
      const unit = decision?.unit ?? []
      operations += unit.length
      for (const operation of unit) if ('text' in operation) characters += operation.text.length
      return at > 0 && (operations > OPERATIONS_MAX || characters > CHARACTERS_MAX)
    })
    return this.#decided.splice(0, end === -1 ? this.#decided.length : end)
  }

  #written(batch: readonly Decided[], written: Written): void {
    this.#isWriting = false
    this.#isRecorded = true
    this.#thread?.post({ durable: batch.at(-1)?.id ?? 0 })
    const events = batch.flatMap(({ decision }) => decision?.events ?? [])
    this.#parts.publish(written.height, events)
    let offset = 0
    for (const { decision, durable } of batch) {
      durable(written, offset)
      offset += decision?.unit?.length ?? 0
    }
    this.#write()
    this.#advance()
  }

  /** The block was refused, and with it all that was decided on top of it. */
  #refused(batch: readonly Decided[], error: Error): void {
    this.#isWriting = false
    const void_ = [...batch, ...this.#decided, ...this.#sent.values()]
    this.#decided = []
    this.#sent.clear()
    this.#thread?.post({ reset: true })
    for (const { failed } of void_) failed(error)
    this.#advance()
  }
}

function madeOf(
  { id, decision }: Extract<FromThread, { decision: unknown }>,
  resolve: (outcome: Outcome) => void,
  failed: (error: Error) => void,
): Decided {
  const { reply, unit, transactionAt, writeAt } = decision
  const durable = (written: Written | null, offset: number) => {
    const first = (written?.position ?? 0) + offset
    const at = { position: first + transactionAt, revision: first + writeAt }
    const recorded = written === null || unit === null ? null : { ...written, ...at }
    resolve({ reply, recorded })
  }
  return { id, decision, durable, failed }
}

function refusedOf(
  answer: Extract<FromThread, { id: number }>,
  failed: (error: Error) => void,
): Decided {
  const error = 'failure' in answer ? errorOf(answer.failure) : new Error('no decision')
  return { id: answer.id, decision: null, durable: () => failed(error), failed }
}

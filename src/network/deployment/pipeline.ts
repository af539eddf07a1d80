import assert from 'node:assert/strict'
import type { Author } from '../../base/author.ts'
import type { Clock } from '../../base/clock.ts'
import { UuidGenerator } from '../../base/uuid.ts'
import { LedgerError, type Turn, type Turns, withAuthorship } from '../../ledger/core.ts'
import type { OwnDatabase, UnitOfWork, Written } from '../../ledger/index.ts'
import { NetworkError } from '../errors.ts'
import type { ConditionRequest } from '../resources/guard.ts'
import type { Caller, Stamp } from '../resources/transaction.ts'
import {
  type EventText,
  type FromThread,
  type NetworkChange,
  type ToThread,
  toError,
} from '../transactions/messages.ts'
import type { NetworkThread, ThreadEnd } from './network-thread.ts'

/** Maximum number of unanswered requests of one network. */
const REQUESTS_MAX = 10_000
/** Characters of requests from which on further requests wait in the main thread, so that no second copy is in memory. */
const SENT_CHARACTERS_MAX = 16 * 1024 * 1024
/** Maximum operations per block. A decision with more operations gets a separate block. */
const OPERATIONS_MAX = 1_000
/** Maximum attempts to decide one request. An attempt fails if this process loses its turn before the decision counts. */
const ATTEMPTS_MAX = 8
/** Duration after which a process that has more requests lets the other processes decide. */
const TURN_MS = 100
/** Maximum characters of a block's operations. A longer decision gets a separate block. */
const CHARACTERS_MAX = 4 * 1024 * 1024

/** The position of a request's changes. */
export interface WritePosition extends Written {
  /** The packed position of the first write, or of the transaction's record if the transaction wrote nothing. */
  readonly revision: number
}

export interface DurableOutcome {
  /** See `Decision`. */
  readonly reply: string
  /** Null if the request changed nothing. */
  readonly recorded: WritePosition | null
}

export interface PipelineParts {
  readonly database: OwnDatabase
  readonly clock: Clock
  /** Starts the network's thread. `isRecorded`: whether the ledger contains the network. */
  startThread(isRecorded: boolean): Promise<NetworkThread>
  /** Returns the author to record with the changes of `caller`; none for an administrator whom nobody has checked. */
  findAuthor(caller: Caller): { readonly by?: Author }
  /** Called with the events of a block after its commit. */
  publish(height: number, events: readonly EventText[]): void
  /** See `StoreReader.timeline`. */
  timeline(): number
  /**
   * Applies the changes that other processes have made to the network; returns the number of blocks applied. Called at
   * the start of each turn.
   */
  follow(timeline: number): Promise<number>
  /** Receives the console output of scripts. */
  log(level: string, text: string): void
}

/** A request that is not answered yet. */
interface Pending {
  readonly message: Extract<ToThread, { id: number }>
  /** Number of attempts that failed because the turn was lost. */
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
  /** Whether the task changes the network, so that it needs a turn. */
  readonly isChange: boolean
  conflicts: number
  /** Never rejects. Returns an error after which the task must run again in another turn, or null. */
  run(): Promise<Error | null>
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
 * in that block or build on it fail with the same error.
 *
 * If several processes serve the network, they take turns (`Turns`): a process decides only during its turn, and first
 * follows the blocks of the others. If a turn was lost, for example with its connection, the ledger refuses the
 * block, or `Turn.confirm` rejects decisions that recorded nothing, and the next turn decides these requests again.
 *
 * If the thread dies, the request that it was processing fails. Once the earlier decisions are durable, a new thread
 * decides the remaining requests.
 */
export class Pipeline {
  readonly #parts: PipelineParts
  readonly #uuids = new UuidGenerator()
  #lastId = 0
  #requests = 0
  /** Changes not sent to the thread yet, and exclusive tasks not started yet, oldest first. */
  readonly #backlog: (Pending | Exclusive)[] = []
  /** Tasks of `whenIdle`. They come first, because the start of a turn can wait for them. */
  readonly #idleTasks: Exclusive[] = []
  /** Conditions not sent to the thread yet. They read durable resources only, so they need no turn. */
  readonly #conditions: Pending[] = []
  /** Requests that the thread has not answered, oldest first. */
  readonly #sent = new Map<number, Pending>()
  #sentChanges = 0
  /** Characters of the texts of the requests in `#sent`. */
  #sentCharacters = 0
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
  /** The turn of this process, or null. */
  #turn: { readonly held: Turn; readonly startedMs: number } | null = null
  /** Whether a turn is being taken or given back. */
  #isTurning = false
  /** Number of blocks that the decisions of this turn take into account; null if there is only one process. */
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
  nextStamp(): Stamp {
    const nowMs = this.#parts.clock.now()
    return { transactionId: this.#uuids.next(nowMs), nowMs }
  }

  /** Makes a change; resolves when it is durable. Errors: as for `Decider.decide`; NETWORK_BUSY, NETWORK_REMOVED. */
  async request(change: NetworkChange, caller: Caller): Promise<DurableOutcome> {
    const message = { id: this.#nextId(), caller, stamp: this.nextStamp(), change }
    const { answer, written } = await this.#send(message)
    if ('failure' in answer) throw toError(answer.failure)
    assert('decision' in answer)
    const { reply, unit, transactionAt, writeAt } = answer.decision
    if (unit === null || written === null) return { reply, recorded: null }
    const position = written.position + transactionAt
    return { reply, recorded: { ...written, position, revision: written.position + writeAt } }
  }

  /**
   * Evaluates a condition on durable resources. Errors: NETWORK_BUSY, NETWORK_INVALID, PROCESSOR_DEADLINE,
   * PROCESSOR_MEMORY.
   */
  async evaluate(condition: ConditionRequest): Promise<readonly (boolean | null)[]> {
    const { answer } = await this.#send({ id: this.#nextId(), condition })
    if ('failure' in answer) throw toError(answer.failure)
    assert('values' in answer)
    return answer.values
  }

  /**
   * Runs `work` in a turn, after all earlier requests are durable. Later requests wait until `work` has finished. If
   * the turn is lost, `work` runs again in another turn.
   */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#enqueueTask(true, work)
  }

  /** Runs `work`, which changes nothing in the ledger, as soon as the thread is idle, with or without a turn. */
  whenIdle(work: () => Promise<void>): Promise<void> {
    return this.#enqueueTask(false, work)
  }

  #enqueueTask<Result>(isChange: boolean, work: () => Promise<Result>): Promise<Result> {
    if (this.#closed !== null) throw this.#closed
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    const run = async (): Promise<Error | null> => {
      try {
        resolve(await work())
      } catch (error) {
        if (isChange && this.#isTurnLost(error)) return error
        reject(error)
      }
      return null
    }
    const task: Exclusive = { isChange, conflicts: 0, run, reject }
    const queue = isChange ? this.#backlog : this.#idleTasks
    queue.push(task)
    this.#advance()
    return promise
  }

  /** Records a unit of work of `caller`. Must be called within an exclusive task. */
  async record(unit: UnitOfWork, caller: Caller): Promise<void> {
    const authored = withAuthorship(unit, this.#parts.findAuthor(caller))
    const { height } = await this.#parts.database.record(authored, this.#known)
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
    for (const { reject } of this.#clearSent()) reject(error)
    for (const queue of [this.#idleTasks, this.#conditions, this.#backlog]) {
      for (const { reject } of queue.splice(0)) reject(error)
    }
    const turn = this.#turn
    this.#turn = null
    await this.exchange(null)
    await turn?.held.end()
    this.#parts.database.turns?.close()
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
    const queue = 'condition' in message ? this.#conditions : this.#backlog
    queue.push({ message, conflicts: 0, resolve, reject })
    this.#advance()
    try {
      return await promise
    } finally {
      this.#requests -= 1
    }
  }

  /** Removes and returns all sent requests. */
  #clearSent(): Pending[] {
    const sent = [...this.#sent.values()]
    this.#sent.clear()
    this.#sentChanges = 0
    this.#sentCharacters = 0
    return sent
  }

  /** Starts the next step: an exclusive task, requests, a turn, or the end of a turn. */
  #advance(): void {
    while (!this.#isExclusive) {
      const [next] = this.#backlog
      const queue = this.#idleTasks.length > 0 ? this.#idleTasks : this.#backlog
      const [task] = queue
      if (task !== undefined && 'run' in task && (!task.isChange || this.#hasTurn)) {
        // Conditions wait too, so that they cannot delay the task without end.
        if (this.#sent.size > 0 || this.#isRecording || this.#isStarting) return
        queue.shift()
        this.#runTask(task)
        return
      }
      const isChange = next !== undefined && 'message' in next && this.#mayDecide
      const request = this.#conditions[0] ?? (isChange ? next : undefined)
      if (request === undefined) break
      if (this.#thread === null) {
        // A new thread loads the durable resources, so it must not start while a block is being written.
        if (!this.#isStarting && !this.#isRecording) this.#start()
        return
      }
      if (this.#sentCharacters > SENT_CHARACTERS_MAX) return
      this.#sentCharacters += countCharacters(request)
      if (request === next) this.#backlog.shift()
      else this.#conditions.shift()
      this.#sent.set(request.message.id, request)
      if (request === next) this.#sentChanges += 1
      this.#thread.post(request.message)
    }
    this.#changeTurn()
  }

  #runTask(task: Exclusive): void {
    this.#isExclusive = true
    void task.run().then((lost) => {
      this.#isExclusive = false
      if (lost !== null) {
        this.#endTurn()
        this.#again([task], lost)
      }
      this.#advance()
    })
  }

  get #hasTurn(): boolean {
    return this.#parts.database.turns === null || this.#turn !== null
  }

  /** Whether the next change may be sent to the thread. */
  get #mayDecide(): boolean {
    const isOver = this.#turn !== null && performance.now() - this.#turn.startedMs >= TURN_MS
    return this.#hasTurn && !isOver
  }

  /** Takes a turn if changes wait. Ends the turn when nothing waits for the ledger, and no more may be sent. */
  #changeTurn(): void {
    const { turns } = this.#parts.database
    if (turns === null || this.#isTurning || this.#isExclusive || this.#closed !== null) return
    const isWaiting = this.#backlog.length > 0
    if (this.#turn === null) {
      if (isWaiting) void this.#takeTurn(turns)
      return
    }
    const isDeciding = this.#sentChanges > 0 || this.#isRecording || this.#isStarting
    if (!isDeciding && !(isWaiting && this.#mayDecide)) this.#endTurn()
  }

  /** Never rejects. */
  async #takeTurn(turns: Turns): Promise<void> {
    this.#isTurning = true
    try {
      const held = await turns.take(this.#parts.timeline())
      try {
        this.#known = await this.#parts.follow(held.timeline)
        this.#turn = { held, startedMs: performance.now() }
        this.#thread?.post({ timeline: held.timeline })
      } finally {
        if (this.#turn === null || this.#closed !== null) {
          this.#turn = null
          await held.end()
        }
      }
    } catch (error) {
      const failure = error instanceof Error ? error : new Error(String(error))
      for (const each of this.#backlog.splice(0)) each.reject(failure)
    }
    this.#isTurning = false
    this.#advance()
  }

  #endTurn(): void {
    const turn = this.#turn
    if (turn === null) return
    this.#turn = null
    this.#isTurning = true
    // `Turn.end` never rejects.
    void turn.held.end().then(() => {
      this.#isTurning = false
      this.#advance()
    })
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
          for (const one of this.#conditions.splice(0)) one.reject(error)
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
    if (this.#turn !== null) thread.post({ timeline: this.#turn.held.timeline })
    thread.listen({
      message: (message) => {
        if ('logged' in message) this.#parts.log(message.logged.level, message.logged.text)
        if (!('id' in message)) return
        // If there is no entry, the request was refused together with an earlier block.
        const pending = this.#sent.get(message.id)
        if (pending === undefined) return
        this.#sent.delete(message.id)
        this.#sentCharacters -= countCharacters(pending)
        if ('condition' in pending.message) pending.resolve({ answer: message, written: null })
        else {
          this.#sentChanges -= 1
          this.#decided.push({ pending, answer: message })
          this.#write()
        }
        this.#advance()
      },
      ended: (end) => this.#lost(end),
    })
  }

  /** Called when the thread has died: rejects the request that it was processing, and queues all others again. */
  #lost(end: ThreadEnd): void {
    this.#thread = null
    const [current, ...others] = this.#clearSent()
    this.#requeue(others)
    const error =
      end === 'DEADLINE'
        ? new NetworkError('PROCESSOR_DEADLINE', 'the transaction took too long: out of time')
        : new NetworkError('PROCESSOR_MEMORY', 'the transaction was ended: out of memory')
    current?.reject(error)
    this.#advance()
  }

  /** Puts requests back into their queues, before all others. */
  #requeue(pending: readonly Pending[]): void {
    const isCondition = ({ message }: Pending) => 'condition' in message
    this.#conditions.unshift(...pending.filter(isCondition))
    this.#backlog.unshift(...pending.filter((each) => !isCondition(each)))
  }

  /** Passes the next batch of decisions to the writer, unless a batch is being written. */
  #write(): void {
    while (!this.#isWriting && this.#decided.length > 0) {
      const batch = this.#nextBatch()
      const unit = batch.flatMap((decided) => this.#authoredUnit(decided))
      const isRecorded = unit.length > 0
      const { turns } = this.#parts.database
      if (!isRecorded && turns === null) {
        for (const { pending, answer } of batch) pending.resolve({ answer, written: null })
        continue
      }
      this.#isWriting = true
      const writing = isRecorded
        ? this.#parts.database.record(unit, this.#known)
        : (this.#turn?.held.confirm() ?? Promise.reject(this.#closed))
      Promise.resolve(writing).then(
        (written) => this.#written(batch, written ?? null),
        (error: unknown) => this.#refused(batch, error, isRecorded),
      )
    }
  }

  #authoredUnit(decided: Decided): UnitOfWork {
    const { message } = decided.pending
    const made = 'caller' in message ? this.#parts.findAuthor(message.caller) : {}
    return withAuthorship(decidedUnit(decided), made)
  }

  #nextBatch(): Decided[] {
    let operations = 0
    let characters = 0
    const end = this.#decided.findIndex((decided, at) => {
      const unit = decidedUnit(decided)
      operations += unit.length
      for (const operation of unit) if ('text' in operation) characters += operation.text.length
      return at > 0 && (operations > OPERATIONS_MAX || characters > CHARACTERS_MAX)
    })
    return this.#decided.splice(0, end === -1 ? this.#decided.length : end)
  }

  /** `written` is null if the batch recorded nothing. */
  #written(batch: readonly Decided[], written: Written | null): void {
    this.#isWriting = false
    if (written !== null) {
      this.#isRecorded = true
      if (this.#known !== null) this.#known = written.height + 1
      this.#thread?.post({ durable: batch.at(-1)?.pending.message.id ?? 0 })
      const events = batch.flatMap(({ answer }) =>
        'decision' in answer ? answer.decision.events : [],
      )
      this.#parts.publish(written.height, events)
    }
    let position = written?.position ?? 0
    for (const decided of batch) {
      const { pending, answer } = decided
      pending.resolve({ answer, written: written === null ? null : { ...written, position } })
      position += decidedUnit(decided).length
    }
    this.#write()
    this.#advance()
  }

  /** Discards the decisions of a refused batch and all later decisions, which build on that batch. */
  #refused(batch: readonly Decided[], thrown: unknown, isRecorded: boolean): void {
    this.#isWriting = false
    const error = thrown instanceof Error ? thrown : new Error(String(thrown))
    const undone = [...batch, ...this.#decided].map(({ pending }) => pending)
    undone.push(...this.#clearSent())
    this.#decided = []
    // The thread's state contains the refused changes, so the next request starts a new thread.
    void this.exchange(null)
    this.#endTurn()
    // If nothing was to be recorded, only the turn was lost.
    if (!isRecorded || this.#isTurnLost(error)) this.#again(undone, error)
    else for (const pending of undone) pending.reject(error)
    this.#advance()
  }

  /** Whether the ledger refused a block because another process has changed or created the database first. */
  #isTurnLost(error: unknown): error is LedgerError {
    if (this.#parts.database.turns === null || !(error instanceof LedgerError)) return false
    return error.code === 'DATABASE_CHANGED' || error.code === 'DATABASE_EXISTS'
  }

  /** Queues requests or a task again, for another turn. */
  #again(undone: readonly (Pending | Exclusive)[], cause: Error): void {
    const again = undone.filter((each) => {
      each.conflicts += 1
      return each.conflicts < ATTEMPTS_MAX && this.#closed === null
    })
    const message = 'other processes of the node keep changing this network; try again'
    const busy = new NetworkError('NETWORK_BUSY', message, { cause })
    for (const each of undone) if (!again.includes(each)) each.reject(this.#closed ?? busy)
    for (const each of again.toReversed()) {
      if ('message' in each) this.#requeue([each])
      else this.#backlog.unshift(each)
    }
  }
}

function countCharacters({ message }: Pending): number {
  return 'change' in message && 'text' in message.change ? message.change.text.length : 0
}

function decidedUnit({ answer }: Decided): UnitOfWork {
  return ('decision' in answer ? answer.decision.unit : null) ?? []
}

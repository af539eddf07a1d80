import assert from 'node:assert/strict'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Foresight, knownText } from './foresight.ts'
import { Guest, type GuestAnswer } from './guest.ts'
import {
  ABANDONED,
  ANSWERED,
  type Answer,
  type CallDone,
  type Foreseen,
  type FromSandbox,
  type GuestCall,
  type Role,
  type SandboxStart,
  type ToSandbox,
} from './messages.ts'

// The program of a sandbox's thread. It holds two guests, so that a condition of an access rule can be
// evaluated while a processor waits for what the rule protects. Whatever a guest does, this thread is
// all that it holds up; the main thread ends it when even the guest's deadline does not.

/** Writes that may be told of together, and the characters of them. */
const TOLD_MAX = 100
const TOLD_CHARACTERS_MAX = 1_000_000
/** What is asked when nothing is but whether all that was told is granted. */
const NOTHING = '{"ask":"nothing"}'
/** What a call came to is told with what the next ones come to, unless they take longer than this. */
const HELD_MS = 0.2

/** What the guests of this thread say to the main thread. */
class Line {
  readonly #start: SandboxStart
  readonly #port: MessagePort
  readonly #evaluate: (call: GuestCall) => GuestAnswer
  /** Whether each write waits for its answer. */
  #areWritesAsked = false
  #foreseen: readonly Foreseen[] = []
  #told: string[] = []
  #toldCharacters = 0
  /** All that the call told of. */
  #writes: string[] = []
  #done: CallDone[] = []
  #doneAtMs = 0
  /** How long calls have waited for their turns, all together. */
  #waitedMs = 0

  constructor(start: SandboxStart, port: MessagePort, evaluate: (call: GuestCall) => GuestAnswer) {
    this.#start = start
    this.#port = port
    this.#evaluate = evaluate
  }

  /** Whether the main thread wants nothing more of the calls that it sent. */
  get isAbandoned(): boolean {
    return Atomics.load(this.#start.signal, ABANDONED) === 1
  }

  /** What the call that runs told of. */
  get writes(): readonly string[] {
    return this.#writes
  }

  /** A clock that stands still while a call waits for its turn: its deadline is for what it does. */
  nowMs(): number {
    return performance.now() - this.#waitedMs
  }

  /** A call begins. */
  begin({ areWritesAsked }: GuestCall, foreseen: readonly Foreseen[] = []): void {
    this.#areWritesAsked = areWritesAsked
    this.#foreseen = foreseen
    this.#told = []
    this.#toldCharacters = 0
    this.#writes = []
  }

  /** Asks the main thread, and waits for it without leaving the guest. */
  ask(request: string): string {
    const { signal, answers } = this.#start
    const asked = { done: this.#takeDone(), asked: request, foreseen: this.#foreseen }
    let message: FromSandbox = { ...asked, told: this.#takeTold() }
    for (;;) {
      if (this.isAbandoned) throw new Error('abandoned')
      Atomics.store(signal, ANSWERED, 0)
      this.#port.postMessage(message)
      const answer = next(signal, answers)
      if ('waitedMs' in answer) this.#waitedMs += answer.waitedMs
      if ('answer' in answer) return answer.answer
      if ('refused' in answer) throw new Error(answer.refused)
      if ('abandoned' in answer) continue
      message = { evaluated: this.#evaluate(answer.evaluate) }
    }
  }

  /** Has the main thread told of a write, with whatever comes next. */
  tell(request: string): string {
    this.#told.push(request)
    this.#writes.push(request)
    this.#toldCharacters += request.length
    const isMuch = this.#told.length >= TOLD_MAX || this.#toldCharacters >= TOLD_CHARACTERS_MAX
    return this.#areWritesAsked || isMuch ? this.ask(NOTHING) : 'null'
  }

  /** The call has ended: told with what comes next. */
  end(answer: GuestAnswer): void {
    if (this.#done.length === 0) this.#doneAtMs = performance.now()
    this.#done.push({ answer, told: this.#takeTold(), foreseen: this.#foreseen })
  }

  /** Tells of the calls that have ended if that was a while ago. */
  tellInTime(): void {
    if (this.#done.length === 0 || performance.now() - this.#doneAtMs < HELD_MS) return
    this.#send({ done: this.#takeDone() })
  }

  /** Nothing more is to come of the calls. */
  endAll(worn: boolean): void {
    this.#send({ done: this.#takeDone(), ended: true, worn })
  }

  #send(message: FromSandbox): void {
    this.#port.postMessage(message)
  }

  #takeTold(): string[] {
    const told = this.#told
    this.#told = []
    this.#toldCharacters = 0
    return told
  }

  #takeDone(): CallDone[] {
    const done = this.#done
    this.#done = []
    return done
  }
}

function next(signal: Int32Array<SharedArrayBuffer>, answers: MessagePort): Answer {
  Atomics.wait(signal, ANSWERED, 0)
  const received: { message: Answer } | undefined = receiveMessageOnPort(answers)
  assert(received !== undefined, 'the signal is raised when the answer is there')
  return received.message
}

function nothingInside(): never {
  throw new Error('no condition is evaluated inside another')
}

async function run(start: SandboxStart, port: MessagePort): Promise<void> {
  const { program, scripts, memoryBytes, bootMs } = start
  // Assigned below, before anything is called.
  const inside = (call: GuestCall) => {
    lines.conditions.begin(call)
    return guests.conditions.call(call.request, '[]', call.deadlineMs)
  }
  const lines = {
    processors: new Line(start, port, inside),
    conditions: new Line(start, port, nothingInside),
  }
  const boot = (role: Role): Promise<Guest> => {
    const line = lines[role]
    const functions = { host: line.ask.bind(line), tell: line.tell.bind(line) }
    const nowMs = line.nowMs.bind(line)
    const isStopped = () => {
      line.tellInTime()
      return line.isAbandoned
    }
    return Guest.boot({ program, scripts, functions, memoryBytes, nowMs, isStopped }, bootMs)
  }
  let guests: Record<Role, Guest>
  const send = (message: FromSandbox) => port.postMessage(message)
  try {
    guests = { conditions: await boot('conditions'), processors: await boot('processors') }
    send({ ready: true })
  } catch (error) {
    send({ failed: error instanceof Error ? error.message : String(error) })
    return
  }
  const isWorn = () => guests.conditions.worn || guests.processors.worn
  /** One after the other; those behind one that wears a guest out, or is abandoned, do not run. */
  const callAll = (line: Line, calls: readonly GuestCall[], foresight: Foresight) => {
    for (const [at, call] of calls.entries()) {
      if (line.isAbandoned || isWorn()) return
      const foreseen = foresight.of(call.known)
      line.begin(call, foreseen)
      const known = knownText(call.known, foreseen)
      const answer = guests[call.role].call(call.request, known, call.deadlineMs)
      if (line.isAbandoned) return
      line.end(answer)
      if ('value' in answer) foresight.note(line.writes)
      // What the last one came to is told with the end.
      if (at < calls.length - 1) line.tellInTime()
    }
  }
  let before: Foresight | null = null
  // The main thread sends no more before these have ended.
  port.on('message', ({ calls, follow }: ToSandbox) => {
    const line = lines[calls[0]?.role ?? 'processors']
    const foresight = new Foresight(calls, follow ? before : null)
    callAll(line, calls, foresight)
    line.endAll(isWorn())
    before = foresight
  })
}

// The offset of the machine's time zone is all that an engine asks of it; here it is UTC everywhere,
// so that a transaction does on every node what it did on the first.
Date.prototype.getTimezoneOffset = () => 0

assert(parentPort !== null)
// What `Sandbox` starts this thread with.
await run(workerData as SandboxStart, parentPort)

import assert from 'node:assert/strict'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Guest, type GuestAnswer } from './guest.ts'
import type { Answer, FromSandbox, GuestCall, Role, SandboxStart, ToSandbox } from './messages.ts'

// The program of a sandbox's thread. It holds two guests, so that a condition of an access rule can be
// evaluated while a processor waits for what the rule protects. Whatever a guest does, this thread is
// all that it holds up; the main thread ends it when even the guest's deadline does not.

/** Writes that may be told of together, and the characters of them. */
const TOLD_MAX = 100
const TOLD_CHARACTERS_MAX = 1_000_000
/** What is asked when nothing is but whether all that was told is granted. */
const NOTHING = '{"ask":"nothing"}'

/** What the guests of this thread say to the main thread. */
class Line {
  /** Whether each write waits for its answer. */
  areWritesAsked = false
  readonly #start: SandboxStart
  readonly #port: MessagePort
  readonly #evaluate: (call: GuestCall) => GuestAnswer
  #told: string[] = []
  #toldCharacters = 0

  constructor(start: SandboxStart, port: MessagePort, evaluate: (call: GuestCall) => GuestAnswer) {
    this.#start = start
    this.#port = port
    this.#evaluate = evaluate
  }

  /** Asks the main thread, and waits for it without leaving the guest. */
  ask(request: string): string {
    const { signal, answers } = this.#start
    let message: FromSandbox = { asked: request, told: this.takeTold() }
    for (;;) {
      Atomics.store(signal, 0, 0)
      this.#port.postMessage(message)
      const answer = next(signal, answers)
      if ('answer' in answer) return answer.answer
      if ('refused' in answer) throw new Error(answer.refused)
      message = { evaluated: this.#evaluate(answer.evaluate) }
    }
  }

  /** Has the main thread told of a write, with whatever comes next. */
  tell(request: string): string {
    this.#told.push(request)
    this.#toldCharacters += request.length
    const isMuch = this.#told.length >= TOLD_MAX || this.#toldCharacters >= TOLD_CHARACTERS_MAX
    return this.areWritesAsked || isMuch ? this.ask(NOTHING) : 'null'
  }

  /** What was told since this was called last. */
  takeTold(): string[] {
    const told = this.#told
    this.#told = []
    this.#toldCharacters = 0
    return told
  }
}

function next(signal: Int32Array<SharedArrayBuffer>, answers: MessagePort): Answer {
  Atomics.wait(signal, 0, 0)
  const received: { message: Answer } | undefined = receiveMessageOnPort(answers)
  assert(received !== undefined, 'the signal is raised when the answer is there')
  return received.message
}

function nothingInside(): never {
  throw new Error('no condition is evaluated inside another')
}

async function run(start: SandboxStart, port: MessagePort): Promise<void> {
  const { program, scripts, memoryBytes, bootMs } = start
  const send = (message: FromSandbox) => port.postMessage(message)
  const nowMs = () => performance.now()
  // Assigned below, before anything is called.
  const inside = (call: GuestCall) => guests.conditions.call(call.request, call.deadlineMs)
  const lines = {
    processors: new Line(start, port, inside),
    conditions: new Line(start, port, nothingInside),
  }
  const boot = (role: Role): Promise<Guest> => {
    const line = lines[role]
    const functions = { host: line.ask.bind(line), tell: line.tell.bind(line) }
    return Guest.boot({ program, scripts, functions, memoryBytes, nowMs }, bootMs)
  }
  let guests: Record<Role, Guest>
  try {
    guests = { conditions: await boot('conditions'), processors: await boot('processors') }
    send({ ready: true })
  } catch (error) {
    send({ failed: error instanceof Error ? error.message : String(error) })
    return
  }
  // The main thread sends one call at a time.
  port.on('message', ({ call }: ToSandbox) => {
    const line = lines[call.role]
    line.areWritesAsked = call.areWritesAsked
    const done = guests[call.role].call(call.request, call.deadlineMs)
    const worn = guests.conditions.worn || guests.processors.worn
    send({ done, told: line.takeTold(), worn })
  })
}

// The offset of the machine's time zone is all that an engine asks of it; here it is UTC everywhere,
// so that a transaction does on every node what it did on the first.
Date.prototype.getTimezoneOffset = () => 0

assert(parentPort !== null)
// What `Sandbox` starts this thread with.
await run(workerData as SandboxStart, parentPort)

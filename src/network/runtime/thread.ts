import assert from 'node:assert/strict'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Guest, type GuestAnswer, type HostFunction } from './guest.ts'
import type { Answer, FromSandbox, GuestCall, Role, SandboxStart, ToSandbox } from './messages.ts'

// The program of a sandbox's thread. It holds two guests, so that a condition of an access rule can be
// evaluated while a processor waits for what the rule protects. Whatever a guest does, this thread is
// all that it holds up; the main thread ends it when even the guest's deadline does not.

/** The guest of one role, made anew when it is worn. */
class Post {
  readonly #boot: () => Promise<Guest>
  #guest: Guest

  private constructor(boot: () => Promise<Guest>, guest: Guest) {
    this.#boot = boot
    this.#guest = guest
  }

  static async open(boot: () => Promise<Guest>): Promise<Post> {
    return new Post(boot, await boot())
  }

  call({ name, request, deadlineMs }: GuestCall): GuestAnswer {
    if (this.#guest.worn) return { failed: 'LOST', message: 'the guest has to be made anew' }
    return this.#guest.call(name, request, deadlineMs)
  }

  async renew(): Promise<void> {
    if (this.#guest.worn) this.#guest = await this.#boot()
  }
}

/** `host` of the processors: asks the main thread, and waits for it without leaving the guest. */
function waitingHost(
  { signal, answers }: SandboxStart,
  port: MessagePort,
  evaluate: (call: GuestCall) => GuestAnswer,
): HostFunction {
  return (request) => {
    let message: FromSandbox = { asked: request }
    for (;;) {
      Atomics.store(signal, 0, 0)
      port.postMessage(message)
      const answer = next(signal, answers)
      if ('answer' in answer) return answer.answer
      if ('refused' in answer) throw new Error(answer.refused)
      message = { evaluated: evaluate(answer.evaluate) }
    }
  }
}

function next(signal: Int32Array<SharedArrayBuffer>, answers: MessagePort): Answer {
  Atomics.wait(signal, 0, 0)
  const received: { message: Answer } | undefined = receiveMessageOnPort(answers)
  assert(received !== undefined, 'the signal is raised when the answer is there')
  return received.message
}

const noHost: HostFunction = () => {
  throw new Error('a condition sees what it is given, and asks for nothing')
}

async function run(start: SandboxStart, port: MessagePort): Promise<void> {
  const { scripts, memoryBytes, bootMs } = start
  const send = (message: FromSandbox) => port.postMessage(message)
  const nowMs = () => performance.now()
  const open = (role: Role, host: HostFunction) =>
    Post.open(() => Guest.boot({ scripts: scripts[role], host, memoryBytes, nowMs }, bootMs))
  try {
    const conditions = await open('conditions', noHost)
    const host = waitingHost(start, port, (call) => conditions.call(call))
    const posts = { conditions, processors: await open('processors', host) }
    // The main thread sends one call at a time.
    port.on('message', async ({ call }: ToSandbox) => {
      await Promise.all([posts.conditions.renew(), posts.processors.renew()])
      send({ done: posts[call.role].call(call) })
    })
    send({ ready: true })
  } catch (error) {
    send({ failed: error instanceof Error ? error.message : String(error) })
  }
}

assert(parentPort !== null)
await run(workerData as SandboxStart, parentPort)

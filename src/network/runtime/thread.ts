import assert from 'node:assert/strict'
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Guest, type GuestAnswer, type HostFunction } from './guest.ts'
import type { Answer, FromSandbox, GuestCall, Role, SandboxStart, ToSandbox } from './messages.ts'

// The program of a sandbox's thread. It holds two guests, so that a condition of an access rule can be
// evaluated while a processor waits for what the rule protects. Whatever a guest does, this thread is
// all that it holds up; the main thread ends it when even the guest's deadline does not.

/** `host` of a guest: asks the main thread, and waits for it without leaving the guest. */
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

function nothingInside(): never {
  throw new Error('no condition is evaluated inside another')
}

async function run(start: SandboxStart, port: MessagePort): Promise<void> {
  const { program, scripts, memoryBytes, bootMs } = start
  const send = (message: FromSandbox) => port.postMessage(message)
  const nowMs = () => performance.now()
  const boot = (role: Role): Promise<Guest> => {
    const host = waitingHost(start, port, role === 'processors' ? inside : nothingInside)
    return Guest.boot({ program, scripts, host, memoryBytes, nowMs }, bootMs)
  }
  // Assigned below, before anything is called.
  const inside = (call: GuestCall) => guests.conditions.call(call.request, call.deadlineMs)
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
    const done = guests[call.role].call(call.request, call.deadlineMs)
    send({ done, worn: guests.conditions.worn || guests.processors.worn })
  })
}

// The offset of the machine's time zone is all that an engine asks of it; here it is UTC everywhere,
// so that a transaction does on every node what it did on the first.
Date.prototype.getTimezoneOffset = () => 0

assert(parentPort !== null)
// What `Sandbox` starts this thread with.
await run(workerData as SandboxStart, parentPort)

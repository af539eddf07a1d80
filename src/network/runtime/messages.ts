import type { MessagePort } from 'node:worker_threads'
import type { GuestAnswer, Script } from './guest.ts'

/** Which of the two guests of a sandbox: see `sandbox.ts`. */
export type Role = 'processors' | 'conditions'

/** What both guests of a sandbox load. */
export interface GuestScripts {
  /** What calls go to: see `GuestOptions`. */
  readonly program: Script
  /** The network's own. */
  readonly scripts: readonly Script[]
}

/** What the thread is started with. */
export interface SandboxStart extends GuestScripts {
  readonly memoryBytes: number
  readonly bootMs: number
  /** Its first element is raised when something was put into `answers`. */
  readonly signal: Int32Array<SharedArrayBuffer>
  /** Where the main thread puts what the thread waits for. */
  readonly answers: MessagePort
}

/** A call of a guest's program. */
export interface GuestCall {
  readonly role: Role
  readonly request: string
  readonly deadlineMs: number
  /** Whether each write waits for its answer; else they are told with what comes next. */
  readonly areWritesAsked: boolean
}

/** Main thread to sandbox: one call at a time. */
export type ToSandbox = { readonly call: GuestCall }

/** Main thread to sandbox while that waits for the answer to `asked`. */
export type Answer =
  | { readonly answer: string }
  /** What was asked for failed: the guest sees an error with this message. */
  | { readonly refused: string }
  /** First this has to be evaluated; then the sandbox waits again. */
  | { readonly evaluate: GuestCall }

/** Sandbox to main thread. */
export type FromSandbox =
  | { readonly ready: true }
  /** It could not start: a script of the network throws when it is loaded. */
  | { readonly failed: string }
  /** The guest calls `host`, and the thread waits; before that it called `tell` with each of `told`. */
  | { readonly asked: string; readonly told: readonly string[] }
  /** The value of what was to be evaluated meanwhile. */
  | { readonly evaluated: GuestAnswer }
  /** The answer to the call; `worn` says that a guest cannot be called again. */
  | { readonly done: GuestAnswer; readonly told: readonly string[]; readonly worn: boolean }

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
  /** `ANSWERED` and `ABANDONED` are its elements. */
  readonly signal: Int32Array<SharedArrayBuffer>
  /** Where the main thread puts what the thread waits for. */
  readonly answers: MessagePort
}

/** The element of the signal that is raised when something was put into `answers`. */
export const ANSWERED = 0
/** The element that is raised when the calls that have not ended are not wanted any more. */
export const ABANDONED = 1

/**
 * A resource that a call is sent with, as it is when nothing changes it before the call: also that it is
 * not there, since one that a call before it adds is then given to it.
 */
export interface Known {
  /** Qualified name. */
  readonly type: string
  /** The name of the member that has the id. */
  readonly identifier: string
  readonly id: string
  /** Canonical JSON; null when there is none. */
  readonly text: string | null
}

/** What a call was given in place of what it was sent with: that is what a call before it wrote. */
export interface Foreseen {
  /** Which of the resources that it was sent with. */
  readonly at: number
  /** Canonical JSON; null when it was removed. */
  readonly text: string | null
}

/** A call of a guest's program. */
export interface GuestCall {
  readonly role: Role
  readonly request: string
  readonly known: readonly Known[]
  readonly deadlineMs: number
  /** Whether each write waits for its answer; else they are told with what comes next. */
  readonly areWritesAsked: boolean
}

/** What a call came to. */
export interface CallDone {
  readonly answer: GuestAnswer
  /** What was told when nothing was asked any more. */
  readonly told: readonly string[]
  readonly foreseen: readonly Foreseen[]
}

/** Main thread to sandbox: calls to be taken one after the other; no more before they have ended. */
export interface ToSandbox {
  readonly calls: readonly GuestCall[]
  /** Whether they also see what the calls of the message before wrote. */
  readonly follow: boolean
}

/** What came of what a guest asked for. */
export type Answered =
  | { readonly answer: string }
  /** What was asked for failed: the guest sees an error with this message. */
  | { readonly refused: string }

/** Main thread to sandbox while that waits for the answer to `asked`. */
export type Answer =
  | (Answered & {
      /** How long nobody was there to answer, because the turn of the call had not come: ms. */
      readonly waitedMs: number
    })
  /** First this has to be evaluated; then the sandbox waits again. */
  | { readonly evaluate: GuestCall }
  /** Nobody wants to know any more. */
  | { readonly abandoned: true }

/** Sandbox to main thread; `done` are the calls that have ended since it spoke last. */
export type FromSandbox =
  | { readonly ready: true }
  /** It could not start: a script of the network throws when it is loaded. */
  | { readonly failed: string }
  /**
   * The guest calls `host`, and the thread waits; before that it called `tell` with each of `told`.
   */
  | {
      readonly done: readonly CallDone[]
      readonly asked: string
      readonly told: readonly string[]
      readonly foreseen: readonly Foreseen[]
    }
  /** The value of what was to be evaluated meanwhile. */
  | { readonly evaluated: GuestAnswer }
  /** More calls are to come. */
  | { readonly done: readonly CallDone[] }
  /** No more is to come of the calls; `worn` says that a guest cannot be called again. */
  | { readonly done: readonly CallDone[]; readonly ended: true; readonly worn: boolean }

import { OutboundError, type OutboundReply } from '../../src/http/outbound.ts'
import type { Lies } from './lies.ts'
import type { World } from './world.ts'

/** Maximum latency of a message, milliseconds. */
const WAY_MS_MAX = 60
/** Maximum latency of a delayed message, which later messages can overtake, milliseconds. */
const LONG_WAY_MS_MAX = 4_000
/**
 * Probability that a lost message is a broken connection, which the caller notices at once. Otherwise the
 * request times out.
 */
const BROKEN_SHARE = 0.7

/** A request from one node to another. */
export interface Sent {
  readonly method: 'GET' | 'POST'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | null
  readonly policy: { readonly timeoutMs: number; readonly bodyBytesMax: number }
}

export interface Answer {
  readonly status: number
  readonly body: Buffer
}

/** Handles a request. A rejected promise is a broken connection. */
export type Serve = (sent: Sent) => Promise<Answer>

interface Caller {
  readonly host: string
  readonly sent: Sent
  readonly answered: (answer: Answer) => void
  readonly failed: (code: 'UNREACHABLE' | 'TIMEOUT') => void
}

/** The simulated network, which can lose, delay, reorder, duplicate, cut and change messages. */
export class Network {
  /** Probabilities that a message is lost, delayed or duplicated. */
  loss = 0
  delay = 0
  duplication = 0
  /** Changes the replies to one node. */
  lies: Lies | null = null
  /** Called when the node `caller` receives a reply. */
  onAnswer: (caller: string, sent: Sent, answer: Answer) => void = () => {}
  readonly #world: World
  readonly #serving = new Map<string, Serve>()
  /** Elements are `<from> <to>`. Messages in this direction are lost. */
  readonly #cuts = new Set<string>()

  constructor(world: World) {
    this.#world = world
  }

  listen(host: string, serve: Serve): void {
    this.#serving.set(host, serve)
  }

  leave(host: string): void {
    this.#serving.delete(host)
  }

  /** Cuts only the direction from `from` to `to`. */
  cut(from: string, to: string): void {
    this.#cuts.add(`${from} ${to}`)
  }

  /** Removes all faults. From now on, every message arrives once, unchanged and with normal latency. */
  heal(): void {
    this.#cuts.clear()
    this.loss = 0
    this.delay = 0
    this.duplication = 0
    this.lies = null
  }

  mend(from: string, to: string): void {
    this.#cuts.delete(`${from} ${to}`)
  }

  /** Sends a request from `host`. A caller that has exited gets no reply. Errors: OutboundError. */
  call(host: string, sent: Sent, hasEnded: () => boolean): Promise<OutboundReply> {
    const world = this.#world
    return new Promise((resolve, reject) => {
      let isOpen = true
      const settle = (how: () => void) => {
        if (!isOpen) return
        isOpen = false
        forget()
        if (!hasEnded()) how()
      }
      const failed = (code: 'UNREACHABLE' | 'TIMEOUT') =>
        settle(() => reject(new OutboundError(code, `${sent.url.hostname}: ${code}`)))
      const forget = world.after(sent.policy.timeoutMs, () => failed('TIMEOUT'))
      if (hasEnded()) {
        reject(new OutboundError('UNREACHABLE', 'the node has exited'))
        return
      }
      const answered = (answer: Answer) =>
        settle(() => {
          const { status, body } = answer
          if (body.length > sent.policy.bodyBytesMax) {
            reject(new OutboundError('BODY_TOO_LARGE', `${sent.url.hostname}: too long`))
            return
          }
          this.onAnswer(host, sent, answer)
          resolve({ status, body, header: () => null })
        })
      const caller = { host, sent, answered, failed }
      const times = world.happens(this.duplication) ? 2 : 1
      for (let time = 0; time < times; time += 1) {
        this.#travel(host, sent.url.hostname, failed, () => this.#arrive(caller))
      }
    })
  }

  #travel(from: string, to: string, lost: Caller['failed'], arrive: () => void): void {
    const world = this.#world
    const isLong = world.happens(this.delay)
    const wayMs = world.between(1, isLong ? LONG_WAY_MS_MAX : WAY_MS_MAX)
    if (this.#cuts.has(`${from} ${to}`) || world.happens(this.loss)) {
      if (world.happens(BROKEN_SHARE)) world.after(wayMs, () => lost('UNREACHABLE'))
    } else world.after(wayMs, arrive)
  }

  #arrive({ host, sent, answered, failed }: Caller): void {
    const to = sent.url.hostname
    const serve = this.#serving.get(to)
    if (serve === undefined) {
      this.#travel(to, host, failed, () => failed('UNREACHABLE'))
      return
    }
    serve(sent).then(
      (answer) => {
        const received = this.lies === null ? answer : this.lies.tell(host, sent, answer)
        this.#travel(to, host, failed, () => answered(received))
      },
      () => this.#travel(to, host, failed, () => failed('UNREACHABLE')),
    )
  }
}

import { toBase64 } from '../../base/base64.ts'
import { errorMessage } from '../../base/errors.ts'
import { joinUrl, serverUrl, UrlError } from '../../base/url.ts'
import {
  type Cosignature,
  cosignatureBy,
  nodeVerifySignature,
  ProofError,
  parseWitnessKey,
  unverifiedText,
  type VerifierKey,
} from '../../chain/index.ts'
import { LedgerError } from '../errors.ts'
import type { Platform } from '../platform.ts'
import type { SignedHeadUpdate } from './thread.ts'

// Asks witnesses to cosign the checkpoints of this node (c2sp.org/tlog-witness).

const WITNESSES_MAX = 16
const URL_LENGTH_MAX = 2_000
/** Maximum time for one reply of a witness. */
const REPLY_MS_MAX = 10_000
/**
 * Maximum time that a request for a checkpoint waits for a witness. Requests do not wait at all for a witness whose
 * last answer was an error or took longer.
 */
const WAIT_MS = 1_000
/** Minimum time between two requests to one witness. */
const INTERVAL_MS = 200
/** Maximum time between two requests to a witness that fails. */
const RETRY_MS_MAX = 60_000
/** Maximum requests about one checkpoint: with the remembered size, with the size in the reply, and one retry. */
const REQUESTS_MAX = 3
const REPLY_BYTES_MAX = 16_384

/** A witness that cosigns this node's checkpoints. */
export interface Witness {
  readonly key: VerifierKey
  /** The submission prefix, without a final slash. */
  readonly url: string
}

/** Parses a setting: `<vkey> <url>`. Errors: WITNESS_INVALID. */
export function parseWitness(text: string): Witness {
  const [vkey = '', url = '', ...more] = text.trim().split(/\s+/)
  try {
    if (more.length === 0 && url.length <= URL_LENGTH_MAX) {
      return { url: serverUrl(url), key: parseWitnessKey(vkey) }
    }
  } catch (error) {
    if (!(error instanceof ProofError || error instanceof UrlError)) throw error
  }
  throw new LedgerError(
    'WITNESS_INVALID',
    'a witness is a cosignature key (type 4 or 6) and an address, like name+1a2b3c4d+BE… https://w.example',
  )
}

/** Settings for the requests of this node to its witnesses. */
export interface WitnessesOptions {
  readonly witnesses: readonly Witness[]
  /** Whether witnesses may be on private networks. */
  readonly allowPrivate: boolean
  /** Called when a witness fails for a new reason, and when it works again. */
  readonly report: (message: string) => void
}

/** A signed head: the size of the log, and the note. */
export type SignedNote = Pick<SignedHeadUpdate, 'size' | 'note'>

/** Proves that the log of `to` blocks begins with the log of `from` blocks. */
type Prove = (from: number, to: number) => Promise<readonly Uint8Array[]>

export interface WitnessState {
  readonly name: string
  /** Number of blocks of the newest checkpoint that the witness has cosigned, as far as this node knows. */
  readonly size: number
  /** Reason why the witness has not cosigned the newest checkpoint, or null. */
  readonly error: string | null
}

/** The witnesses of a node. Different witnesses get requests in parallel, but each witness only one at a time. */
export class Witnesses {
  readonly #clients: readonly WitnessClient[]

  /** Errors: WITNESS_INVALID. */
  constructor(options: WitnessesOptions, prove: Prove, platform: Platform) {
    const names = new Set(options.witnesses.map(({ key }) => key.name))
    if (names.size !== options.witnesses.length || names.size > WITNESSES_MAX) {
      const message = `at most ${WITNESSES_MAX} witnesses are possible, each with its own name`
      throw new LedgerError('WITNESS_INVALID', message)
    }
    this.#clients = options.witnesses.map((witness) => {
      return new WitnessClient(witness, options, prove, platform)
    })
  }

  /** Asks the witnesses to cosign a head, unless they were already asked to cosign this or a larger head. */
  ask(signed: SignedNote): void {
    for (const witness of this.#clients) witness.ask(signed)
  }

  /** Returns the note with the cosignatures that arrive within WAIT_MS. Never rejects. */
  async cosigned(signed: SignedNote): Promise<string> {
    this.ask(signed)
    await Promise.all(this.#clients.map((witness) => witness.settled(signed.size)))
    return signed.note + this.#clients.map((witness) => witness.lineFor(signed)).join('')
  }

  states(): readonly WitnessState[] {
    return this.#clients.map((witness) => witness.state())
  }

  /** Aborts the requests in progress, and sends no further ones. */
  close(): void {
    for (const witness of this.#clients) witness.close()
  }
}

/** The result of a request: a cosignature or an error. An error is final if the same request would fail again. */
type Answer =
  | { readonly cosignature: Cosignature }
  | { readonly error: string; readonly isFinal: boolean }

class WitnessClient {
  readonly #witness: Witness
  readonly #options: WitnessesOptions
  readonly #prove: Prove
  readonly #platform: Platform
  /** The newest head to cosign. */
  #wanted: SignedNote | null = null
  #isAsking = false
  /** Size of the last head that was cosigned or finally refused. */
  #settledSize = -1
  #cosigned: { readonly note: string; readonly line: string } | null = null
  /** Size that the witness has last cosigned. The reply of the witness corrects a wrong size. */
  #size = 0
  #error: string | null = null
  /** Whether the last answer came in time. True before the first request. */
  #isPrompt = true
  #waiting: (() => void)[] = []
  #cancelPause: () => void = () => {}
  readonly #closing = new AbortController()

  constructor(witness: Witness, options: WitnessesOptions, prove: Prove, platform: Platform) {
    this.#witness = witness
    this.#options = options
    this.#prove = prove
    this.#platform = platform
  }

  ask(signed: SignedNote): void {
    if (signed.size <= (this.#wanted?.size ?? -1) || this.#isClosed) return
    this.#wanted = signed
    if (!this.#isAsking) void this.#askRepeatedly()
  }

  /** Resolves when the witness has answered about a head of at least `size` blocks, or is slow or failing. */
  async settled(size: number): Promise<void> {
    while (this.#isPrompt && this.#settledSize < size && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  /** Returns the cosignature line for exactly this head, or an empty string. */
  lineFor({ note }: SignedNote): string {
    return this.#cosigned?.note === note ? this.#cosigned.line : ''
  }

  state(): WitnessState {
    return { name: this.#witness.key.name, size: this.#size, error: this.#error }
  }

  close(): void {
    this.#closing.abort(new Error('the node is closing'))
    this.#cancelPause()
    this.#wake()
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** Requests cosignatures until the newest head is cosigned or refused. Never rejects. */
  async #askRepeatedly(): Promise<void> {
    this.#isAsking = true
    let pauseMs = INTERVAL_MS
    for (;;) {
      const signed = this.#wanted
      if (signed === null || signed.size <= this.#settledSize || this.#isClosed) break
      let isInTime = true
      const cancel = this.#platform.schedule.after(WAIT_MS, () => {
        isInTime = false
        this.#isPrompt = false
        this.#wake()
      })
      const answer = await this.#answer(signed)
      cancel()
      if (this.#isClosed) break
      this.#settle(signed, answer, isInTime)
      pauseMs = 'error' in answer ? Math.min(pauseMs * 2, RETRY_MS_MAX) : INTERVAL_MS
      await this.#pause(pauseMs)
    }
    this.#isAsking = false
  }

  #settle(signed: SignedNote, answer: Answer, isInTime: boolean): void {
    const error = 'error' in answer ? answer.error : null
    if ('cosignature' in answer) {
      this.#cosigned = { note: signed.note, line: answer.cosignature.line }
      this.#size = signed.size
    }
    if (error === null || ('isFinal' in answer && answer.isFinal)) this.#settledSize = signed.size
    this.#isPrompt = isInTime && error === null
    if (error !== this.#error) {
      const message = error ?? 'it cosigns again'
      this.#options.report(`witness ${this.#witness.key.name}: ${message}`)
    }
    this.#error = error
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #pause(ms: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = this.#platform.schedule.after(ms, resolve)
      this.#cancelPause = () => {
        cancel()
        resolve()
      }
    })
  }

  async #answer(signed: SignedNote): Promise<Answer> {
    try {
      for (let n = 0; n < REQUESTS_MAX; n += 1) {
        const answer = await this.#request(signed)
        if (typeof answer !== 'number') return answer
        if (answer > signed.size) {
          const has = `it has cosigned ${answer} blocks of this log, and this checkpoint has ${signed.size}`
          return finalAnswer(
            `${has}: an older state was restored, or another process or node with the same key is ahead`,
          )
        }
        if (answer === this.#size) {
          return finalAnswer(
            `it has cosigned another log of ${answer} blocks with the key of this node`,
          )
        }
        this.#size = answer
      }
      return {
        error: 'the size of the log in its answers changes with each request',
        isFinal: false,
      }
    } catch (error) {
      return { error: errorMessage(error), isFinal: false }
    }
  }

  /**
   * Sends one request. If the witness has last cosigned another size than `#size`, returns that size. Rejects if the
   * proof cannot be read or the connection fails.
   */
  async #request({ size, note }: SignedNote): Promise<Answer | number> {
    const proof = await this.#prove(this.#size, size)
    const lines = proof.map((hash) => `${toBase64(hash)}\n`).join('')
    const { status, body } = await this.#platform.outbound.post(
      joinUrl(this.#witness.url, '/add-checkpoint'),
      { 'content-type': 'text/plain; charset=utf-8' },
      Buffer.from(`old ${this.#size}\n${lines}\n${note}`),
      {
        schemes: ['https:', 'http:'],
        allowPrivate: this.#options.allowPrivate,
        privateSetting: 'PEERS_ALLOW_PRIVATE',
        timeoutMs: REPLY_MS_MAX,
        bodyBytesMax: REPLY_BYTES_MAX,
        signal: this.#closing.signal,
      },
    )
    const text = body.toString()
    if (status === 200) return this.#verifiedAnswer(text, note)
    const [, known = ''] = /^(0|[1-9]\d{0,14})\n?$/.exec(text) ?? []
    if (status === 409 && known !== '') return Number(known)
    const meaning = REFUSALS[status]
    const isFinal = meaning !== undefined
    return { error: `it answered ${status}${isFinal ? `: ${meaning}` : ''}`, isFinal }
  }

  async #verifiedAnswer(lines: string, note: string): Promise<Answer> {
    try {
      const cosigned = `${unverifiedText(note)}\n${lines}`
      const cosignature = await cosignatureBy(nodeVerifySignature, this.#witness.key, cosigned)
      if (cosignature !== null) return { cosignature }
      return { error: 'it answered without a cosignature by its key', isFinal: false }
    } catch (error) {
      if (!(error instanceof ProofError)) throw error
      return { error: `it answered with a wrong cosignature: ${error.message}`, isFinal: false }
    }
  }
}

function finalAnswer(error: string): Answer {
  return { error, isFinal: true }
}

/** Messages for the statuses with which the same checkpoint would fail again. */
const REFUSALS: Readonly<Record<number, string>> = {
  400: 'it rejects the request as malformed',
  403: 'it has a different key for this log',
  404: 'it does not know this log, so its operator has to add the verifier key of this node',
  422: 'the checkpoint does not continue the log that the witness has cosigned',
}

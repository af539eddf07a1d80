import { isJsonObject, parseJsonOrNull } from '../base/json.ts'
import type { VerifySignature } from '../chain/portable.ts'
import { ClientError, isTransient, unverifiable } from './error.ts'

/** Stores the last verified checkpoint, a text of about 200 characters. */
export interface CheckpointStore {
  /** Returns the checkpoint that `set` stored last, or nothing. */
  get(): string | null | undefined | Promise<string | null | undefined>
  /** Must complete before a read returns. */
  set(checkpoint: string): void | Promise<void>
}

export interface VerifyOptions {
  /** The verifier key of the node, `daicho/<serverid>+…`, from a source other than the node. */
  readonly key: string
  readonly checkpoint: CheckpointStore
  /** Keys of witnesses, of which `quorum` must have cosigned every checkpoint. */
  readonly witnesses?: readonly string[] | undefined
  /** Default: all of `witnesses`. */
  readonly quorum?: number | undefined
  /** The text of a C2SP tlog-policy, instead of `witnesses` and `quorum`. */
  readonly policy?: string | undefined
  /** Ed25519, for platforms whose Web Crypto lacks it. */
  readonly verifySignature?: VerifySignature
}

/** Options of a client. */
export interface ClientOptions {
  /** A token, or a function that returns one for each request; unset if the node requires none. */
  readonly token?: string | (() => string | Promise<string>) | undefined
  /** Timeout of one attempt, 30,000 milliseconds by default. For streams, the time until they start. */
  readonly timeoutMs?: number | undefined
  /** Maximum retries of a request after a transient failure, 4 by default. */
  readonly retries?: number | undefined
  readonly fetch?: typeof globalThis.fetch
  readonly timing?: Timing
  /** Verifies every read, and rejects reads that the node cannot prove. */
  readonly verify?: VerifyOptions | undefined
}

/** Options of every request. */
export interface RequestOptions {
  /** Aborts the request, its retries and their delays. */
  readonly signal?: AbortSignal | undefined
}

type QueryValue = string | number | boolean | readonly string[]
/** Query parameters; a list repeats the name. */
export type Query = Readonly<Record<string, QueryValue | undefined>>
/** A request body other than JSON. A function returns a new stream for each attempt. */
export type Content =
  | Blob
  | Uint8Array<ArrayBuffer>
  | string
  | ReadableStream
  | (() => ReadableStream)

export interface Call extends RequestOptions {
  readonly method: string
  /** The result of `pathOf`. */
  readonly path: string
  readonly query?: Query
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  readonly content?: Content
  /** The phase without a timeout: sending the content, or reading the reply after it has started. */
  readonly streams?: 'content' | 'reply'
  /** Set if the caller verifies the reply; if it is unset, a verifying client rejects the read. */
  readonly isProven?: boolean
}

/** Delays and random numbers, which tests replace. */
export interface Timing {
  /** Resolves after `ms` milliseconds; rejects with the reason of `signal` if that aborts first. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random(): number
}

const FIRST_DELAY_MS = 100

/**
 * The delay in milliseconds before retry `attempt`, starting with 1: doubled each time up to `maxMs`. Half of it
 * is random, so that clients that failed together do not retry together.
 */
export function backOffMs(attempt: number, maxMs: number, random: () => number): number {
  const full = Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), maxMs)
  return Math.round(full * (0.5 + random() / 2))
}

const SYSTEM_TIMING: Timing = {
  random: Math.random,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const onAbort = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
}

const TIMEOUT_MS = 30_000
const RETRIES = 4
const RETRIES_MAX = 20
const WAIT_MS_MAX = 5_000
const KEY_BYTES = 16

/**
 * Sends requests to one node, and retries them after transient failures. All attempts of a change have the same
 * `Idempotency-Key`, so that the node applies it once.
 */
export class Transport {
  readonly timing: Timing
  readonly #base: string
  readonly #token: ClientOptions['token']
  readonly #timeoutMs: number
  readonly #retries: number
  readonly #fetch: typeof globalThis.fetch
  readonly #verifies: boolean

  /** Errors: TypeError for an invalid `url`. */
  constructor(url: string | URL, options: ClientOptions) {
    const { origin, pathname } = new URL(url)
    this.#base = origin + pathname.replace(/\/+$/, '')
    this.#token = options.token
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
    this.#retries = Math.min(options.retries ?? RETRIES, RETRIES_MAX)
    // Browsers require that `fetch` is called as a method of the global object.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#verifies = options.verify !== undefined
    this.timing = options.timing ?? SYSTEM_TIMING
  }

  /**
   * Sends a read and converts the reply with `convert`. All reads go through this method, so that a verifying client
   * rejects reads without proof. Errors: UNVERIFIABLE for a read without proof.
   */
  async read<Result>(call: Call, convert: (reply: Response) => Promise<Result>): Promise<Result> {
    if (this.#verifies && call.isProven !== true) throw unverifiable(`GET ${call.path}`)
    return this.#withRetries(call, call.headers ?? {}, convert)
  }

  /** Sends a change and converts the reply with `convert`. */
  write<Result>(call: Call, convert: (reply: Response) => Promise<Result>): Promise<Result> {
    // A stream can be sent only once.
    if (call.content instanceof ReadableStream)
      return this.#attempt(call, call.headers ?? {}, convert)
    return this.#withRetries(call, { 'idempotency-key': newKey(), ...call.headers }, convert)
  }

  async #withRetries<Result>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    take: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#attempt(call, headers, take)
      } catch (error) {
        if (attempt > this.#retries || !isTransient(error)) throw error
      }
      await this.timing.sleep(backOffMs(attempt, WAIT_MS_MAX, this.timing.random), call.signal)
    }
  }

  async #attempt<Result>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    take: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    const token = typeof this.#token === 'function' ? await this.#token() : this.#token
    const limit = new AbortController()
    const timer =
      call.streams === 'content'
        ? undefined
        : setTimeout(() => limit.abort(TIMED_OUT), this.#timeoutMs)
    const { signal } = call
    signal?.throwIfAborted()
    try {
      const reply = await this.#fetch(`${this.#base}${call.path}${queryText(call.query ?? {})}`, {
        ...initOf(call),
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        signal: signal === undefined ? limit.signal : AbortSignal.any([limit.signal, signal]),
      })
      if (!reply.ok && reply.status !== 304) throw await refusalIn(reply)
      if (call.streams === 'reply') clearTimeout(timer)
      return await take(reply)
    } catch (error) {
      throw signal?.aborted === true ? signal.reason : failureOf(error, this.#timeoutMs)
    } finally {
      clearTimeout(timer)
    }
  }
}

function initOf({ method, body, content }: Call): RequestInit {
  const bytes = typeof content === 'function' ? content() : content
  return {
    method,
    body: body === undefined ? (bytes ?? null) : JSON.stringify(body),
    // `fetch` requires it for streams.
    ...(bytes instanceof ReadableStream ? { duplex: 'half' as const } : {}),
    redirect: 'error',
  }
}

const TIMED_OUT = Symbol('timed out')

/** Replaces each `{name}` in `template` with its part. Errors: ClientError, NAME_INVALID. */
export function pathOf(template: string, parts: Readonly<Record<string, string | number>>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const text = String(parts[name] ?? '')
    // URLs resolve these path segments even if they are escaped.
    if (!['', '.', '..'].includes(text) && text.isWellFormed()) return encodeURIComponent(text)
    throw new ClientError('NAME_INVALID', 0, `${JSON.stringify(text)} cannot be used as ${name}`)
  })
}

function queryText(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => {
    if (value === undefined) return []
    const values = typeof value === 'object' ? value : [String(value)]
    return values.map((each) => `${encodeURIComponent(name)}=${encodeURIComponent(each)}`)
  })
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

/** 128 random bits. `crypto.randomUUID` does not exist on pages without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Returns the JSON of a reply with `status` true. The type is declared by the schema of the node and not checked. */
export async function jsonOf<Reply>(reply: Response): Promise<Reply> {
  const value: unknown = parseJsonOrNull(await reply.text())
  if (isJsonObject(value) && value.status === true) return value as Reply
  throw malformed(reply)
}

/** The body of a reply as a stream. */
export async function bytesOf(reply: Response): Promise<ReadableStream<Uint8Array>> {
  if (reply.body === null) throw malformed(reply)
  return reply.body
}

async function refusalIn(reply: Response): Promise<ClientError> {
  const value = parseJsonOrNull(await reply.text())
  const { status } = reply
  if (!isJsonObject(value) || value.status !== false) return malformed(reply)
  // A missing item is reported with only a `status`.
  if (value.code === undefined && status !== 404) return malformed(reply)
  const { code = 'ITEM_NOT_FOUND', message = 'there is no such item' } = value
  return new ClientError(String(code), status, String(message))
}

function malformed({ status }: Response): ClientError {
  return new ClientError('REPLY_MALFORMED', status, `the reply (${status}) is not that of a node`)
}

function failureOf(error: unknown, timeoutMs: number): ClientError {
  if (error instanceof ClientError) return error
  if (error === TIMED_OUT) {
    return new ClientError('TIMEOUT', 0, `no reply within ${timeoutMs} milliseconds`)
  }
  return new ClientError('UNREACHABLE', 0, 'the node cannot be reached', { cause: error })
}

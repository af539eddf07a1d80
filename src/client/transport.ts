import { parseJson } from '../base/json.ts'
import { backOffMs, MACHINE_TIMING, type Timing } from './back-off.ts'
import { ClientError, isPassing, unverifiable } from './error.ts'
import type { VerifyOptions } from './verify-options.ts'

/** How a node is reached. */
export interface ClientOptions {
  /** A token, or what gives one for each request; where the node requires none, nothing. */
  readonly token?: string | (() => string | Promise<string>) | undefined
  /** Milliseconds for one attempt: 30,000 unless said otherwise. Streams are timed until they begin. */
  readonly timeoutMs?: number | undefined
  /** How often a request is repeated that may pass the next time: 4 unless said otherwise. */
  readonly retries?: number | undefined
  readonly fetch?: typeof globalThis.fetch
  readonly timing?: Timing
  /** Believe only what the node proves; what cannot be proven is not read at all. */
  readonly verify?: VerifyOptions | undefined
}

/** What a request may say of itself. */
export interface RequestOptions {
  /** Ends the request, its repetitions and its waits. */
  readonly signal?: AbortSignal | undefined
}

type QueryValue = string | number | boolean | readonly string[]
/** Values of a query by name; a list gives the name several times. */
export type Query = Readonly<Record<string, QueryValue | undefined>>
/** The content of a request that is no JSON. A function gives a new stream for each attempt. */
export type Content =
  | Blob
  | Uint8Array<ArrayBuffer>
  | string
  | ReadableStream
  | (() => ReadableStream)

/** One request. */
export interface Call extends RequestOptions {
  readonly method: string
  /** From `pathOf`. */
  readonly path: string
  readonly query?: Query
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  readonly content?: Content
  /** What may take as long as it takes: sending the content, or reading the reply once it has begun. */
  readonly lasts?: 'content' | 'reply'
  /** The caller proves what it takes from the reply; else a verifying client does not read it. */
  readonly isProven?: boolean
}

const TIMEOUT_MS = 30_000
const RETRIES = 4
const RETRIES_MAX = 20
/** The longest wait between two attempts. */
const WAIT_MS_MAX = 5_000
const KEY_BYTES = 16

/**
 * Sends requests to one node. Reads are repeated while they may pass the next time. So are changes,
 * with an `Idempotency-Key` that is the same each time: the node applies them once.
 */
export class Transport {
  readonly timing: Timing
  readonly #base: string
  readonly #token: ClientOptions['token']
  readonly #timeoutMs: number
  readonly #retries: number
  readonly #fetch: typeof globalThis.fetch
  readonly #verifies: boolean

  /** Errors: TypeError when `url` is none. */
  constructor(url: string | URL, options: ClientOptions) {
    const { origin, pathname } = new URL(url)
    this.#base = origin + pathname.replace(/\/+$/, '')
    this.#token = options.token
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
    this.#retries = Math.min(options.retries ?? RETRIES, RETRIES_MAX)
    // Browsers want it to be called as their own.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#verifies = options.verify !== undefined
    this.timing = options.timing ?? MACHINE_TIMING
  }

  /**
   * The reply to a read, taken by `take`. Every read of the client goes through here, so that none is
   * believed by a client that verifies unless it is proven. Errors: UNVERIFIABLE for such a read.
   */
  async read<Result>(call: Call, take: (reply: Response) => Promise<Result>): Promise<Result> {
    if (this.#verifies && call.isProven !== true) {
      throw unverifiable(`GET ${call.path}`)
    }
    return this.#repeated(call, call.headers ?? {}, take)
  }

  /** The reply to a change, taken by `take`. Every change goes through here. */
  write<Result>(call: Call, take: (reply: Response) => Promise<Result>): Promise<Result> {
    // A stream can be sent once.
    if (call.content instanceof ReadableStream) return this.#attempt(call, call.headers ?? {}, take)
    return this.#repeated(call, { 'idempotency-key': newKey(), ...call.headers }, take)
  }

  async #repeated<Result>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    take: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#attempt(call, headers, take)
      } catch (error) {
        if (attempt > this.#retries || !isPassing(error)) throw error
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
      call.lasts === 'content'
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
      if (call.lasts === 'reply') clearTimeout(timer)
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
    // What fetch asks for before it sends a stream.
    ...(bytes instanceof ReadableStream ? { duplex: 'half' as const } : {}),
    redirect: 'error',
  }
}

const TIMED_OUT = Symbol('timed out')

/** A path with `parts` in the places of `{…}`. Errors: ClientError, NAME_INVALID. */
export function pathOf(template: string, parts: Readonly<Record<string, string | number>>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const text = String(parts[name] ?? '')
    // A URL takes these for steps in the path, however they are written.
    if (!['', '.', '..'].includes(text) && text.isWellFormed()) return encodeURIComponent(text)
    throw new ClientError('NAME_INVALID', 0, `${JSON.stringify(text)} can be no ${name}`)
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

/** 128 random bits. `crypto.randomUUID` is not there on pages without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The JSON of a reply with `status` true. The node's own schema is the promise of its shape. */
export async function jsonOf<Reply>(reply: Response): Promise<Reply> {
  const text = await reply.text()
  const value = parsed(text)
  if (isObject(value) && value.status === true) return value as Reply
  throw malformed(reply)
}

/** The bytes of a reply, as they come. */
export async function bytesOf(reply: Response): Promise<ReadableStream<Uint8Array>> {
  if (reply.body === null) throw malformed(reply)
  return reply.body
}

async function refusalIn(reply: Response): Promise<ClientError> {
  const value = parsed(await reply.text())
  const { status } = reply
  if (!isObject(value) || value.status !== false) return malformed(reply)
  // With nothing else, as a reply of 404: there is no such item.
  if (value.code === undefined && status !== 404) return malformed(reply)
  const { code = 'ITEM_NOT_FOUND', message = 'there is no such item' } = value
  return new ClientError(String(code), status, String(message))
}

function malformed({ status }: Response): ClientError {
  return new ClientError('REPLY_MALFORMED', status, `a reply (${status}) that is not a node's`)
}

function failureOf(error: unknown, timeoutMs: number): ClientError {
  if (error instanceof ClientError) return error
  if (error === TIMED_OUT) {
    return new ClientError('TIMEOUT', 0, `no reply within ${timeoutMs} milliseconds`)
  }
  return new ClientError('UNREACHABLE', 0, 'the node cannot be reached', { cause: error })
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

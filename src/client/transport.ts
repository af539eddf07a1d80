import { joinUrl, serverUrl, UrlError } from '../base/url.ts'
import type { VerifySignature } from '../chain/portable.ts'
import { ClientError, canRetry, unverifiable } from './error.ts'
import { describeValue, jsonText, requireText, valueInvalid } from './json-body.ts'
import { isRedirect, readRefusal, redirected } from './reply.ts'

/** Stores the last verified checkpoint, a text of about 200 characters. */
export interface CheckpointStore {
  /** Returns the checkpoint that `set` stored last, or nothing. */
  get(): string | null | undefined | Promise<string | null | undefined>
  /** Stores `checkpoint`. The read that verified the checkpoint returns only after this call has completed. */
  set(checkpoint: string): void | Promise<void>
}

export interface VerifiedReadsOptions {
  /** The verifier key of the node, `daicho/<serverid>+…`, from a source other than the node. */
  readonly key: string
  readonly checkpoint: CheckpointStore
  /** Keys of witnesses, of which `quorum` must have cosigned every checkpoint. */
  readonly witnesses?: readonly string[] | undefined
  /** Number of witnesses that must have cosigned; by default, all `witnesses`. */
  readonly quorum?: number | undefined
  /** The text of a C2SP tlog-policy, instead of `witnesses` and `quorum`. */
  readonly policy?: string | undefined
  /**
   * Also requires for each read a proof that the revision is the newest, and for each missing item that there is none;
   * by default, a read only proves that the revision was recorded.
   */
  readonly current?: boolean | undefined
  /** Verifies Ed25519 signatures on platforms whose Web Crypto lacks Ed25519. */
  readonly verifySignature?: VerifySignature
}

/** Options of a client. */
export interface ClientOptions {
  /** A token, or a function that returns a token for each request; unset if the node requires no token. */
  readonly token?: string | ((signal: AbortSignal) => string | Promise<string>) | undefined
  /** Timeout of one attempt, 30,000 milliseconds by default. For a stream, the time until it starts. */
  readonly timeoutMs?: number | undefined
  /** Maximum retries of a request after a transient failure, 4 by default. */
  readonly retries?: number | undefined
  readonly fetch?: typeof globalThis.fetch
  readonly timing?: Timing
  /** Verifies every read, and rejects reads that the node cannot prove. */
  readonly verify?: VerifiedReadsOptions | undefined
}

/** Options of a read that can return a past state. */
export interface PastOptions extends RequestOptions {
  /** The state after the block of this height, or after the last block up to this time of RFC 3339. */
  readonly at?: number | string | undefined
}

/** Options of every request. */
export interface RequestOptions {
  /** Aborts the request, its retries and their delays. */
  readonly signal?: AbortSignal | undefined
}

/** Options of every change. */
export interface WriteOptions extends RequestOptions {
  /** Why the change is made, 1 to 1,024 bytes of UTF-8. Recorded in its entries. */
  readonly reason?: string | undefined
}

type QueryValue = string | number | boolean | readonly string[]
/** Query parameters. A list becomes one parameter for each element. */
export type QueryParameters = Readonly<Record<string, QueryValue | undefined>>
/** A request body other than JSON. A function returns a new stream for each attempt. */
export type Content =
  | Blob
  | Uint8Array<ArrayBuffer>
  | string
  | ReadableStream
  | (() => ReadableStream)

export interface Call {
  readonly method: string
  /** The result of `formatPath`. */
  readonly path: string
  readonly query?: QueryParameters
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  readonly content?: Content | undefined
  /** The phase without a timeout: sending the content, or reading the reply after it has started. */
  readonly streams?: 'content' | 'reply'
  /** Whether the caller verifies the reply. If not, a verifying client rejects the read. */
  readonly isProven?: boolean
  /** The options of the caller, which may have no other members. */
  readonly options?: WriteOptions | undefined
}

/** Delays and random numbers, which tests replace. */
export interface Timing {
  /** Resolves after `ms` milliseconds, or rejects with the reason of `signal` if `signal` aborts first. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random(): number
}

const FIRST_DELAY_MS = 100

/**
 * Returns the milliseconds to wait before retry `attempt`, starting with 1. The delay doubles with each attempt, up to
 * `maxMs`. Half of the delay is random, so that clients that failed together do not retry together.
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
/** The maximum delay of a timer. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1
const RETRIES = 4
const RETRIES_MAX = 20
const WAIT_MS_MAX = 5_000
const KEY_BYTES = 16

/**
 * Sends requests to one node, and retries them after transient failures. All attempts of a change have the same
 * `Idempotency-Key`, so that the node applies the change once.
 */
export class Transport {
  readonly timing: Timing
  readonly #base: string
  readonly #token: ClientOptions['token']
  readonly #timeoutMs: number
  readonly #retries: number
  readonly #fetch: typeof globalThis.fetch
  readonly #verifies: boolean

  /** Errors: TypeError for an invalid `url` or option. */
  constructor(url: string | URL, options: ClientOptions) {
    const { token, timeoutMs = TIMEOUT_MS, retries = RETRIES } = options
    this.#base = requireBase(url)
    requireClientOptions(options)
    this.#token = token
    if (!(timeoutMs >= 1 && timeoutMs <= TIMEOUT_MS_MAX)) {
      throw new TypeError(`timeoutMs must be 1 to ${TIMEOUT_MS_MAX}, but is ${timeoutMs}`)
    }
    if (!(retries >= 0)) throw new TypeError(`retries must be 0 or more, but is ${retries}`)
    this.#timeoutMs = timeoutMs
    this.#retries = Math.min(retries, RETRIES_MAX)
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
    requireOptions(call.options ?? {})
    if (this.#verifies && call.isProven !== true) throw unverifiable(`GET ${call.path}`)
    return this.#withRetries(call, call.headers ?? {}, convert)
  }

  /** Sends a change and converts the reply with `convert`. */
  async write<Result>(call: Call, convert: (reply: Response) => Promise<Result>): Promise<Result> {
    const { options = {} } = call
    requireOptions(options)
    const { reason } = options
    const headers: Record<string, string> = { ...call.headers }
    if (reason !== undefined) {
      headers['ledger-reason'] = encodeURIComponent(
        formatQueryValue(requireText(reason, 'reason'), 'reason'),
      )
    }
    // Does not retry, because a stream can be sent only once.
    if (call.content instanceof ReadableStream) return this.#attempt(call, headers, convert)
    return this.#withRetries(call, { 'idempotency-key': newKey(), ...headers }, convert)
  }

  async #withRetries<Result>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    convert: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    const content = call.body === undefined ? call.content : jsonText(call.body, 'body')
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#attempt({ ...call, content }, headers, convert)
      } catch (error) {
        if (attempt > this.#retries || !canRetry(error)) throw error
        const backOff = backOffMs(attempt, WAIT_MS_MAX, this.timing.random)
        await this.timing.sleep(Math.max(backOff, error.retryAfterMs ?? 0), call.options?.signal)
      }
    }
  }

  /**
   * Sends `call` once. Sends only `content`, because `#withRetries` has converted `body` to `content`. Errors of the
   * `token` function are passed on unchanged.
   */
  async #attempt<Result>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    convert: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    const given = call.options?.signal
    given?.throwIfAborted()
    const limit = new AbortController()
    const timedOut = () => {
      const message = `no reply within ${this.#timeoutMs} milliseconds`
      limit.abort(new ClientError('TIMEOUT', 0, message))
    }
    const timer = call.streams === 'content' ? undefined : setTimeout(timedOut, this.#timeoutMs)
    const signal = given === undefined ? limit.signal : AbortSignal.any([limit.signal, given])
    try {
      const token = typeof this.#token === 'function' ? await this.#token(signal) : this.#token
      const init = {
        ...toRequestInit(call),
        headers: requireHeaders({
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        }),
        signal,
      }
      return await this.#exchange(call, init, async (reply) => {
        if (call.streams === 'reply') clearTimeout(timer)
        return convert(reply)
      })
    } finally {
      clearTimeout(timer)
    }
  }

  async #exchange<Result>(
    call: Call,
    init: RequestInit & { readonly signal: AbortSignal },
    convert: (reply: Response) => Promise<Result>,
  ): Promise<Result> {
    const url = joinUrl(this.#base, `${call.path}${formatQuery(call.query ?? {})}`).href
    try {
      const reply = await this.#fetch(url, init)
      if (isRedirect(reply)) throw await redirected(reply, url)
      if (!reply.ok && reply.status !== 304) throw await readRefusal(reply)
      return await convert(reply)
    } catch (error) {
      if (init.signal.aborted) throw init.signal.reason
      if (error instanceof ClientError) throw error
      const message = `${this.#base} cannot be reached: ${describeCause(error)}`
      throw new ClientError('UNREACHABLE', 0, message, { cause: error })
    }
  }
}

const OPTIONS = ['signal', 'reason']

/** Errors: ClientError, VALUE_INVALID for an unknown option, because a misspelt condition would be no condition. */
export function requireOptions(options: object, names: readonly string[] = OPTIONS): void {
  const other = Object.keys(options).find((name) => !names.includes(name))
  if (other !== undefined) throw valueInvalid(`there is no option ${other}`)
}

const CLIENT_OPTIONS = [
  ...['token', 'timeoutMs', 'retries', 'fetch', 'timing', 'verify.key', 'verify.checkpoint'],
  ...['verify.witnesses', 'verify.quorum', 'verify.policy', 'verify.current'],
  'verify.verifySignature',
]

/** Errors: TypeError for an unknown option, because a client with a misspelt one would verify less, or nothing. */
function requireClientOptions({ verify, ...options }: ClientOptions): void {
  const ofVerify = Object.keys(verify ?? {}).map((name) => `verify.${name}`)
  const other = [...Object.keys(options), ...ofVerify].find(
    (name) => !CLIENT_OPTIONS.includes(name),
  )
  if (other !== undefined) throw new TypeError(`there is no option ${other}`)
}

/** Errors: TypeError unless `url` is the URL of a server. */
function requireBase(url: string | URL): string {
  try {
    return serverUrl(String(url))
  } catch (error) {
    if (!(error instanceof UrlError)) throw error
    throw new TypeError(error.message, { cause: error })
  }
}

/** Errors: ClientError, VALUE_INVALID. The message does not contain the value, which may be a token. */
function requireHeaders(headers: Readonly<Record<string, string>>): Headers {
  const valid = new Headers()
  for (const [name, value] of Object.entries(headers)) {
    try {
      valid.set(name, value)
    } catch {
      throw valueInvalid(`the value of the header ${name} has a character that no header can have`)
    }
  }
  return valid
}

function toRequestInit({ method, content }: Call): RequestInit {
  const bytes = typeof content === 'function' ? content() : content
  if (bytes !== content && !(bytes instanceof ReadableStream)) {
    throw valueInvalid(`content returned ${describeValue(bytes)} instead of a ReadableStream`)
  }
  return {
    method,
    body: bytes ?? null,
    // `fetch` requires `duplex` for streams.
    ...(bytes instanceof ReadableStream ? { duplex: 'half' as const } : {}),
    // Redirects are not followed, because a redirect could send the token to another server.
    redirect: 'manual',
    // With other values of `cache`, a browser could answer a read with a cached reply.
    cache: 'no-store',
  }
}

/** Returns the message of the innermost cause, because the message of `fetch` is the same for all failures. */
function describeCause(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.cause !== undefined) return describeCause(error.cause)
  return error.message === '' && 'code' in error ? String(error.code) : error.message
}

/** Returns `name`. Errors: ClientError, NAME_INVALID unless `name` is a text that a path can contain. */
export function requireName(name: unknown, what: string): string {
  // Refuses an empty segment, `.` and `..`, because URLs resolve `.` and `..` even if they are escaped.
  if (typeof name === 'string' && !['', '.', '..'].includes(name) && name.isWellFormed()) {
    return name
  }
  const shown = typeof name === 'string' ? JSON.stringify(name) : describeValue(name)
  throw new ClientError('NAME_INVALID', 0, `${shown} cannot be used as ${what}`)
}

/** Replaces each `{name}` in `template` with its part. Errors: ClientError, NAME_INVALID. */
export function formatPath(template: string, parts: Readonly<Record<string, string>>): string {
  const unused = Object.keys(parts).find((name) => !template.includes(`{${name}}`))
  if (unused !== undefined) {
    throw new ClientError('NAME_INVALID', 0, `the path ${template} has no part ${unused}`)
  }
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(requireName(parts[name], name)),
  )
}

/** Errors: ClientError, VALUE_INVALID for a value that would be sent as another text. */
function formatQuery(query: QueryParameters): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => {
    if (value === undefined) return []
    const values: readonly unknown[] = Array.isArray(value) ? value : [value]
    return values.map(
      (each) => `${encodeURIComponent(name)}=${encodeURIComponent(formatQueryValue(each, name))}`,
    )
  })
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function formatQueryValue(value: unknown, name: string): string {
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value)
  if (typeof value === 'string' && value.isWellFormed()) return value
  throw valueInvalid(`${name} is ${describeValue(value)}, which a URL cannot contain`)
}

/** Returns 128 random bits as text. `crypto.randomUUID` does not exist on pages without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

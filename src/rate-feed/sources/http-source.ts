import { OutboundError, type OutboundReply } from '../../http/outbound.ts'
import { SourceError } from '../source-error.ts'
import type { Quote } from '../vector.ts'
import type { RateSource } from './source.ts'

/** One bounded GET: no redirects, a time limit, a size limit. Errors: OutboundError. */
export type Get = (url: URL, headers: Readonly<Record<string, string>>) => Promise<OutboundReply>

/** What tells one HTTP source from another. */
export interface HttpSourceOptions {
  readonly name: string
  readonly family: string
  readonly refreshMs: number
  readonly partial?: boolean
  /** Tried in order; the first that answers well counts. */
  readonly urls: readonly URL[]
  readonly accept: string
  /** The quote in a body of status 200. Errors: SourceError. */
  parse(text: string): Quote
}

/** A Retry-After beyond this is not obeyed to its end. */
const RETRY_AFTER_MAX_MS = 86_400_000

/** What a reply of 200 said of itself, to be sent back next time. */
interface Copy {
  readonly etag: string | null
  readonly lastModified: string | null
}

/** A source behind HTTP: asks conditionally, so that an unchanged vector costs a 304. */
export class HttpSource implements RateSource {
  readonly name: string
  readonly family: string
  readonly refreshMs: number
  readonly partial: boolean
  readonly #options: HttpSourceOptions
  readonly #get: Get
  readonly #now: () => number
  /** By address: a validator of one address means nothing at another. */
  readonly #copies = new Map<string, Copy>()

  constructor(options: HttpSourceOptions, get: Get, now: () => number) {
    this.name = options.name
    this.family = options.family
    this.refreshMs = options.refreshMs
    this.partial = options.partial ?? false
    this.#options = options
    this.#get = get
    this.#now = now
  }

  async read(): Promise<Quote | 'unchanged'> {
    let failure: SourceError | null = null
    for (const url of this.#options.urls) {
      try {
        return await this.#readAt(url)
      } catch (error) {
        if (!(error instanceof SourceError)) throw error
        failure = error
      }
    }
    throw failure ?? new SourceError('UNREACHABLE', 'it has no address')
  }

  async #readAt(url: URL): Promise<Quote | 'unchanged'> {
    const copy = this.#copies.get(url.href)
    const reply = await this.#request(url, copy)
    if (reply.status === 304 && copy !== undefined) return 'unchanged'
    if (reply.status !== 200) {
      const waitMs = retryAfterMs(reply.header('retry-after'), this.#now())
      throw new SourceError('HTTP_STATUS', `it answered with status ${reply.status}`, {
        retryAfterMs: waitMs,
        passing: reply.status >= 500 && waitMs === null,
      })
    }
    // Forgotten before parsing: a body that is refused must come again, not be “unchanged”.
    this.#copies.clear()
    const quote = this.#options.parse(textOf(reply.body))
    const etag = shortOrNull(reply.header('etag'))
    const lastModified = shortOrNull(reply.header('last-modified'))
    if (etag !== null || lastModified !== null) this.#copies.set(url.href, { etag, lastModified })
    return quote
  }

  async #request(url: URL, copy: Copy | undefined): Promise<OutboundReply> {
    const headers: Record<string, string> = { accept: this.#options.accept }
    if (copy?.etag != null) headers['if-none-match'] = copy.etag
    if (copy?.lastModified != null) headers['if-modified-since'] = copy.lastModified
    try {
      return await this.#get(url, headers)
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error
      const passing = error.code === 'UNREACHABLE' || error.code === 'TIMEOUT'
      throw new SourceError(error.code, error.message, { cause: error, passing })
    }
  }
}

/** Milliseconds that `Retry-After` asks for (seconds or a date), or null when it says nothing. */
export function retryAfterMs(header: string | null, now: number): number | null {
  if (header === null) return null
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  if (Number.isNaN(ms)) return null
  return Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS)
}

/** Echoed in our requests, so bounded. */
function shortOrNull(header: string | null): string | null {
  return header === null || header.length > 256 ? null : header
}

function textOf(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (error) {
    throw new SourceError('MALFORMED', 'the body is not UTF-8', { cause: error })
  }
}

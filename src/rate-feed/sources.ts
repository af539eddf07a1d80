import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OutboundError, type OutboundReply } from '../http/outbound.ts'
import { SourceError, SourceListError } from './errors.ts'
import {
  formatVectorDocument,
  parseEcb,
  parseExchangeApi,
  parseFrankfurter,
  parseGmo,
  parseOpenExchangeRates,
  parseVectorDocument,
} from './parsers.ts'
import type { Quote, VectorDocument } from './rates.ts'

/** A source of rates. Callers decide when to read it and which rates to accept. */
export interface RateSource {
  /** Name in `X-Rates-Source` and `/healthz`. Never contains the address of a `file:` or `url:` source. */
  readonly name: string
  /** Name shared by sources that publish the same rates and therefore cannot confirm each other. */
  readonly family: string
  /** Refresh interval in milliseconds. */
  readonly refreshMs: number
  /** Whether the source quotes only some currencies, so that another source must complete it. */
  readonly isPartial: boolean
  /** Whether the source needs no network access. */
  readonly isLocal: boolean
  /** Returns the current quote, or `unchanged` if the quote is the same as the last one. Errors: SourceError. */
  read(): Promise<Quote | 'unchanged'>
}

/** Sends a GET request with limits and without redirects. Errors: OutboundError. */
export type Get = (url: URL, headers: Readonly<Record<string, string>>) => Promise<OutboundReply>

interface HttpSource {
  /** Defaults to the name of the source. */
  readonly family?: string
  readonly refreshMs: number
  readonly isPartial?: boolean
  /** Value of the `Accept` header; JSON by default. */
  readonly accept?: string
  /** Addresses, requested in order until one provides rates. */
  readonly urls: readonly string[]
  readonly parse: (text: string) => Quote
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

const PUBLIC_SOURCES = {
  /** Reference rates of the European Central Bank, published once on each working day. */
  ecb: {
    refreshMs: 30 * MINUTE_MS,
    accept: 'application/xml, text/xml',
    urls: ['https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml'],
    parse: parseEcb,
  },
  /** A service that republishes the rates of the ECB, which have CNY but not CNH. */
  frankfurter: {
    family: 'ecb',
    refreshMs: 30 * MINUTE_MS,
    urls: [
      'https://api.frankfurter.dev/v1/latest?base=EUR&symbols=USD,JPY,AUD,GBP,NZD,CAD,CHF,HKD,ZAR,TRY,CNY,NOK,SEK,MXN',
    ],
    parse: parseFrankfurter,
  },
  /** Rates collected daily by volunteers. The only free source of CNH, but not always correct. */
  'exchange-api': {
    refreshMs: 6 * HOUR_MS,
    // The second address is the fallback recommended by the authors of exchange-api.
    urls: [
      'https://cdn.jsdelivr.net/npm/@fawazahmed0/currency-api@latest/v1/currencies/eur.min.json',
      'https://latest.currency-api.pages.dev/v1/currencies/eur.min.json',
    ],
    parse: parseExchangeApi,
  },
  /** Rates of Open Exchange Rates, requested hourly, as often as the free plan allows. */
  openexchangerates: {
    refreshMs: HOUR_MS,
    urls: ['https://openexchangerates.org/api/latest.json'],
    parse: parseOpenExchangeRates,
  },
  /** Live prices of GMO Coin. */
  gmo: {
    refreshMs: MINUTE_MS,
    isPartial: true,
    urls: ['https://forex-api.coin.z.com/public/v1/ticker'],
    parse: parseGmo,
  },
} satisfies Record<string, HttpSource>

type PublicSource = keyof typeof PUBLIC_SOURCES

/** An entry of `RATES_SOURCES`. */
export type SourceEntry =
  | { readonly kind: PublicSource | 'lastgood' | 'snapshot' }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'url'; readonly url: URL }

const ENTRIES_MAX = 16

/** Parses RATES_SOURCES: sources separated by commas, in order of preference. Errors: SourceListError. */
export function parseSourceList(text: string): readonly SourceEntry[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.length > ENTRIES_MAX) {
    throw new SourceListError(`the list has more than ${ENTRIES_MAX} sources`)
  }
  if (new Set(names).size !== names.length) throw new SourceListError('a source is listed twice')
  return names.map(parseEntry)
}

function parseEntry(name: string): SourceEntry {
  if (name === 'lastgood' || name === 'snapshot' || isPublicSource(name)) return { kind: name }
  if (name.startsWith('file:')) {
    const path = name.replace(/^file:(?:\/\/)?/, '')
    if (path === '' || path.includes('\0')) throw new SourceListError('file: needs a path')
    return { kind: 'file', path }
  }
  if (name.startsWith('url:')) {
    const url = URL.parse(name.slice('url:'.length))
    // The message omits the address, because it may contain a key.
    if (url?.protocol !== 'https:') throw new SourceListError('url: needs an https address')
    return { kind: 'url', url }
  }
  throw new SourceListError(
    `unknown source ${JSON.stringify(name.slice(0, 40))}; the sources are ` +
      `${Object.keys(PUBLIC_SOURCES).join(', ')}, file:<path>, url:<https address>, lastgood, snapshot`,
  )
}

function isPublicSource(name: string): name is PublicSource {
  return Object.hasOwn(PUBLIC_SOURCES, name)
}

export interface SourceContext {
  readonly get: Get
  readonly now: () => number
  /** The operator's key for Open Exchange Rates, or null if there is no key. */
  readonly openExchangeRatesAppId: string | null
}

/**
 * Opens the sources of `entries` in order, except `lastgood` and `snapshot`. Errors: SourceListError if the key for
 * `openexchangerates` is missing.
 */
export function openSources(entries: readonly SourceEntry[], context: SourceContext): RateSource[] {
  const names: string[] = []
  return entries.flatMap((entry) => {
    const { kind } = entry
    if (kind === 'lastgood' || kind === 'snapshot') return []
    names.push(kind)
    const count = names.filter((name) => name === kind).length
    const name = count === 1 ? kind : `${kind}${count}`
    if (kind === 'file') return [fileSource(name, entry.path)]
    if (kind === 'url') {
      const urls = [entry.url.href]
      const source = { refreshMs: 10 * MINUTE_MS, urls, parse: parseVectorDocument }
      return [httpSource(name, source, context)]
    }
    return [publicSource(kind, context)]
  })
}

/** Opens a public source. Errors: SourceListError if the key of the source is missing. */
export function publicSource(name: PublicSource, context: SourceContext): RateSource {
  const source: HttpSource = PUBLIC_SOURCES[name]
  if (name !== 'openexchangerates') return httpSource(name, source, context)
  const appId = context.openExchangeRatesAppId
  if (appId === null) {
    throw new SourceListError('openexchangerates needs a key: set RATES_OPENEXCHANGERATES_APP_ID')
  }
  const urls = source.urls.map((url) => `${url}?${new URLSearchParams({ app_id: appId })}`)
  return httpSource(name, { ...source, urls }, context)
}

function fileSource(name: string, path: string): RateSource {
  return {
    name,
    family: name,
    refreshMs: MINUTE_MS,
    isPartial: false,
    isLocal: true,
    read: () => readVectorFile(path),
  }
}

function httpSource(name: string, source: HttpSource, { get, now }: SourceContext): RateSource {
  const { family = name, refreshMs, isPartial = false, urls, parse } = source
  const { accept = 'application/json' } = source
  /** Headers of the last good reply, which make the next request to the same address conditional. */
  let validators: { url: string; etag: string | null; lastModified: string | null } | null = null
  const readAt = async (url: string): Promise<Quote | 'unchanged'> => {
    const known = validators?.url === url ? validators : null
    const headers: Record<string, string> = { accept }
    if (known?.etag != null) headers['if-none-match'] = known.etag
    if (known?.lastModified != null) headers['if-modified-since'] = known.lastModified
    const reply = await get(new URL(url), headers).catch(throwSourceError)
    if (reply.status === 304 && known !== null) return 'unchanged'
    if (reply.status !== 200) {
      const retryMs = retryAfterMs(reply.header('retry-after'), now())
      const isTransient = reply.status >= 500 && retryMs === null
      const message = `the source replied with status ${reply.status}`
      throw new SourceError('HTTP_STATUS', message, { retryAfterMs: retryMs, isTransient })
    }
    // `validators` is reset before parsing, so that the request after a rejected body is not conditional.
    validators = null
    const quote = parse(decodeUtf8(reply.body))
    const etag = short(reply.header('etag'))
    const lastModified = short(reply.header('last-modified'))
    if (etag !== null || lastModified !== null) validators = { url, etag, lastModified }
    return quote
  }
  const read = async () => {
    let failure: unknown
    for (const url of urls) {
      try {
        return await readAt(url)
      } catch (error) {
        if (!(error instanceof SourceError)) throw error
        failure = error
      }
    }
    throw failure
  }
  return { name, family, refreshMs, isPartial, isLocal: false, read }
}

function throwSourceError(error: unknown): never {
  if (!(error instanceof OutboundError)) throw error
  const isTransient = error.code === 'UNREACHABLE' || error.code === 'TIMEOUT'
  throw new SourceError(error.code, error.message, { cause: error, isTransient })
}

/** Returns the value of a header, or null if the value is too long to be sent back in a request. */
function short(header: string | null): string | null {
  return header === null || header.length > 256 ? null : header
}

function decodeUtf8(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (error) {
    throw new SourceError('MALFORMED', 'the body is not UTF-8', { cause: error })
  }
}

/** Maximum delay from a `Retry-After` header. Longer delays are reduced to this value. */
const RETRY_AFTER_MAX_MS = 86_400_000

/** Parses `Retry-After` (seconds or a date) into milliseconds. Returns null if the header is absent or invalid. */
export function retryAfterMs(header: string | null, now: number): number | null {
  if (header === null) return null
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS)
}

const FILE_BYTES_MAX = 1_048_576

/**
 * Reads the quote in the vector file at `path`. Errors: SourceError, including FILE_UNREADABLE for a pipe or a device,
 * which is not read because reading might never end.
 */
export async function readVectorFile(path: string): Promise<Quote> {
  const text = await readBounded(path).catch((error: unknown) => {
    if (error instanceof SourceError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
    throw new SourceError('FILE_UNREADABLE', `the file cannot be read (${code})`, { cause: error })
  })
  return parseVectorDocument(text)
}

async function readBounded(path: string): Promise<string> {
  // Without O_NONBLOCK, opening a pipe that has no writer would block forever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = await file.stat()
    if (!stat.isFile() || stat.size > FILE_BYTES_MAX) {
      throw new SourceError(
        'FILE_UNREADABLE',
        'the file is not a regular file, or is longer than 1 MiB',
      )
    }
    const bytes = Buffer.alloc(stat.size)
    const { bytesRead } = await file.read(bytes, 0, stat.size, 0)
    return bytes.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Replaces the vector file at `path` atomically. */
export async function writeVectorFile(path: string, document: VectorDocument): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const temporary = `${path}.${randomUUID()}`
  try {
    const file = await open(temporary, 'wx')
    try {
      await file.writeFile(formatVectorDocument(document))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

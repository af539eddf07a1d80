import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { errorCode } from '../base/errors.ts'
import { createFolder, writeFileInParts } from '../base/files/durable-files.ts'
import { OutboundError, type OutboundReply } from '../http/outbound.ts'
import { RateSourceError, SourceListError } from './errors.ts'
import { formatVectorDocument, parseEcb, parseFrankfurter, parseVectorDocument } from './parsers.ts'
import type { Quote, RateVector } from './rates.ts'

/** A source of rates. Callers decide when to read it and which rates to accept. */
export interface RateSource {
  /** Name in `X-Rates-Source` and `/healthz`. Never contains the path of a `file:` source. */
  readonly name: string
  /** Refresh interval in milliseconds. */
  readonly refreshMs: number
  /** Whether the source needs no network access. */
  readonly isLocal: boolean
  /** Returns the current quote. Errors: RateSourceError. */
  read(): Promise<Quote>
}

/** Sends a GET request with limits and without redirects. Errors: OutboundError. */
export type Get = (url: URL, headers: Readonly<Record<string, string>>) => Promise<OutboundReply>

interface PublicSource {
  readonly url: string
  /** Value of the `Accept` header. */
  readonly accept: string
  readonly parse: (text: string) => Quote
}

const PUBLIC_SOURCES = {
  /** Reference rates of the European Central Bank, published once on each working day. */
  ecb: {
    url: 'https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml',
    accept: 'application/xml, text/xml',
    parse: parseEcb,
  },
  /** A service that republishes the rates of the ECB, which have CNY but not CNH. */
  frankfurter: {
    url: 'https://api.frankfurter.dev/v1/latest?base=EUR&symbols=USD,JPY,AUD,GBP,NZD,CAD,CHF,HKD,ZAR,TRY,CNY,NOK,SEK,MXN',
    accept: 'application/json',
    parse: parseFrankfurter,
  },
} satisfies Record<string, PublicSource>

const PUBLIC_REFRESH_MS = 30 * 60_000
const FILE_REFRESH_MS = 60_000

export type SourceEntry =
  | { readonly kind: keyof typeof PUBLIC_SOURCES | 'lastgood' | 'snapshot' }
  | { readonly kind: 'file'; readonly path: string }

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
  throw new SourceListError(
    `unknown source ${JSON.stringify(name.slice(0, 40))}; the sources are ` +
      `${Object.keys(PUBLIC_SOURCES).join(', ')}, file:<path>, lastgood, snapshot`,
  )
}

function isPublicSource(name: string): name is keyof typeof PUBLIC_SOURCES {
  return Object.hasOwn(PUBLIC_SOURCES, name)
}

/** Opens the sources of `entries` in order, except `lastgood` and `snapshot`. */
export function openSources(
  entries: readonly SourceEntry[],
  get: Get,
  now: () => number,
): RateSource[] {
  let files = 0
  return entries.flatMap((entry) => {
    const { kind } = entry
    if (kind === 'lastgood' || kind === 'snapshot') return []
    if (kind !== 'file') return [publicSource(kind, get, now)]
    files += 1
    const name = files === 1 ? 'file' : `file${files}`
    const read = () => readVectorFile(entry.path)
    return [{ name, refreshMs: FILE_REFRESH_MS, isLocal: true, read }]
  })
}

function publicSource(name: keyof typeof PUBLIC_SOURCES, get: Get, now: () => number): RateSource {
  const { url, accept, parse }: PublicSource = PUBLIC_SOURCES[name]
  /** The last good reply, and the headers that make the next request conditional. */
  let last: { quote: Quote; conditions: Readonly<Record<string, string>> } | null = null
  const read = async () => {
    const reply = await get(new URL(url), { accept, ...last?.conditions }).catch(throwAsSourceError)
    if (reply.status === 304 && last !== null) return last.quote
    if (reply.status !== 200) {
      const retryMs = parseRetryAfter(reply.header('retry-after'), now())
      const isTransient = reply.status >= 500 && retryMs === null
      const message = `the source replied with status ${reply.status}`
      throw new RateSourceError('HTTP_STATUS', message, { retryAfterMs: retryMs, isTransient })
    }
    // Reset before parsing, so that the request after a rejected body is not conditional.
    last = null
    const quote = parse(decodeUtf8(reply.body))
    const conditions = {
      ...conditionHeader('if-none-match', reply.header('etag')),
      ...conditionHeader('if-modified-since', reply.header('last-modified')),
    }
    last = { quote, conditions }
    return quote
  }
  return { name, refreshMs: PUBLIC_REFRESH_MS, isLocal: false, read }
}

function throwAsSourceError(error: unknown): never {
  if (!(error instanceof OutboundError)) throw error
  const isTransient = error.code === 'UNREACHABLE' || error.code === 'TIMEOUT'
  throw new RateSourceError(error.code, error.message, { cause: error, isTransient })
}

/** Returns the header `name`, or no header if the value is absent or too long to be sent back. */
function conditionHeader(name: string, value: string | null): Readonly<Record<string, string>> {
  return value === null || value.length > 256 ? {} : { [name]: value }
}

function decodeUtf8(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (error) {
    throw new RateSourceError('MALFORMED', 'the body is not UTF-8', { cause: error })
  }
}

/** Maximum delay from a `Retry-After` header. Longer delays are reduced to this value. */
const RETRY_AFTER_MAX_MS = 86_400_000

/** Parses `Retry-After` (seconds or a date) into milliseconds. Returns null if the header is absent or invalid. */
export function parseRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS)
}

const FILE_BYTES_MAX = 1_048_576

/**
 * Reads the quote in the vector file at `path`. Errors: RateSourceError, including FILE_UNREADABLE for a pipe or a
 * device, which is not read because reading might never end.
 */
export async function readVectorFile(path: string): Promise<Quote> {
  const text = await readBounded(path).catch((error: unknown) => {
    if (error instanceof RateSourceError) throw error
    const code = errorCode(error) || 'UNKNOWN'
    const message = `the file cannot be read (${code})`
    throw new RateSourceError('FILE_UNREADABLE', message, { cause: error })
  })
  return parseVectorDocument(text)
}

async function readBounded(path: string): Promise<string> {
  // Without O_NONBLOCK, opening a pipe that has no writer would block forever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = await file.stat()
    if (!stat.isFile() || stat.size > FILE_BYTES_MAX) {
      const message = 'the file is not a regular file, or is longer than 1 MiB'
      throw new RateSourceError('FILE_UNREADABLE', message)
    }
    const bytes = Buffer.alloc(stat.size)
    const { bytesRead } = await file.read(bytes, 0, stat.size, 0)
    return bytes.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Replaces the vector file at `path` atomically. */
export async function writeVectorFile(path: string, vector: RateVector): Promise<void> {
  createFolder(dirname(path))
  await writeFileInParts(path, (file) => file.writeFile(formatVectorDocument(vector)))
}

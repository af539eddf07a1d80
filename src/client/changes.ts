import { parseForeignJson } from '../base/strict-json.ts'
import type { Entry } from '../chain/portable.ts'
import { ClientError, canRetry } from './error.ts'
import { requireArray, requireText } from './json-body.ts'
import { requireEventStream } from './reply.ts'
import {
  backOffMs,
  type Call,
  formatPath,
  type QueryParameters,
  type RequestOptions,
  requireName,
  requireOptions,
  type Transport,
} from './transport.ts'

/** An entry with its position and time. */
export interface FeedEntry {
  /** `<height>.<index>`, for `since`. */
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly entry: Entry
}

/** Selects changes. */
export interface ChangesOptions extends RequestOptions {
  /** Only changes of these databases. */
  readonly databases?: readonly string[] | undefined
  /** Only changes of this author (the subject). */
  readonly by?: string | undefined
  /** Only changes after this position; `start` for all changes, `now` (default) for future changes. */
  readonly since?: string | undefined
}

/** Maximum delay before an interrupted stream is opened again, milliseconds. */
const WAIT_MS_MAX = 5_000
/** Maximum milliseconds without data. A node sends heartbeats more often. */
const SILENCE_MS_MAX = 60_000

/**
 * Yields the changes of the chain of `serverId` in order, each once. An interrupted stream is resumed, with
 * unlimited attempts, until the loop exits or `signal` aborts. Errors: ClientError for failures that are not
 * transient, e.g. TOKEN_INVALID; the reason of `signal`.
 */
export async function* followChanges(
  transport: Transport,
  serverId: number,
  { databases = [], by, since = 'now', signal, ...others }: ChangesOptions,
): AsyncGenerator<FeedEntry> {
  requireOptions(others)
  const call = changesCall(serverId, {
    db: requireArray(databases, 'databases').map((db) => requireName(db, 'databases')),
    by: by === undefined ? undefined : requireText(by, 'by'),
    since: requireText(since, 'since'),
  })
  let last = ''
  for (let failures = 0; ; ) {
    // Aborted when the caller leaves the loop, which closes the connection.
    const left = new AbortController()
    const headers: Record<string, string> = last === '' ? {} : { 'last-event-id': last }
    try {
      const ends = signal === undefined ? left.signal : AbortSignal.any([left.signal, signal])
      const bytes = await transport.read(
        { ...call, headers, options: { signal: ends } },
        requireEventStream,
      )
      for await (const { data, id } of parseEvents(livelyBytes(bytes, left))) {
        if (id !== '') last = id
        if (data === '') continue
        failures = 0
        yield parseChange(data)
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (!canRetry(error)) throw error
    } finally {
      left.abort()
    }
    failures += 1
    await transport.timing.sleep(backOffMs(failures, WAIT_MS_MAX, transport.timing.random), signal)
  }
}

/** Selects the feed from which `readChainSize` reads. */
export interface SizeOptions extends RequestOptions {
  /** A database that the token can read; unset if the token can read the whole chain. */
  readonly db?: string | undefined
}

/**
 * Returns the number of blocks of the chain of `serverId`: the feed starts with the position of the newest entry.
 * Errors: ClientError.
 */
export async function readChainSize(
  transport: Transport,
  serverId: number,
  { db, signal }: SizeOptions,
): Promise<number> {
  const left = new AbortController()
  const ends = signal === undefined ? left.signal : AbortSignal.any([left.signal, signal])
  try {
    const call = { ...changesCall(serverId, { since: 'now', db }), options: { signal: ends } }
    const bytes = await transport.read(call, requireEventStream)
    for await (const { id } of parseEvents(livelyBytes(bytes, left))) {
      if (id === 'start') return 0
      const [, height] = /^(\d+)\.\d+$/.exec(id) ?? []
      if (height !== undefined) return Number(height) + 1
    }
  } finally {
    left.abort()
  }
  throw new ClientError('REPLY_MALFORMED', 200, 'the change feed has no position')
}

function changesCall(serverId: number, query: QueryParameters): Call {
  const path = formatPath('/api/ledgers/{serverid}/changes', { serverid: `${serverId}` })
  return { method: 'GET', path, query, streams: 'reply' }
}

/** Yields `bytes`, and aborts `connection` after SILENCE_MS_MAX without data. Errors: UNREACHABLE after a failure. */
async function* livelyBytes(
  bytes: ReadableStream<Uint8Array>,
  connection: AbortController,
): AsyncGenerator<Uint8Array> {
  const reader = bytes.getReader()
  for (;;) {
    const silence = setTimeout(() => connection.abort(), SILENCE_MS_MAX)
    try {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    } catch (error) {
      throw new ClientError('UNREACHABLE', 0, 'the stream was interrupted', { cause: error })
    } finally {
      clearTimeout(silence)
    }
  }
}

function parseChange(data: string): FeedEntry {
  try {
    // The cast is not checked: the schema of the node declares the type.
    const change: unknown = parseForeignJson(data)
    return change as FeedEntry
  } catch (error) {
    throw new ClientError('REPLY_MALFORMED', 200, 'an event of the change feed is not JSON', {
      cause: error,
    })
  }
}

interface ServerEvent {
  /** Empty for an event that only has an id. */
  readonly data: string
  /** The last id so far, or empty. */
  readonly id: string
}

/** Maximum length of an event in UTF-16 units: more than an entry with an item of the maximum size. */
const EVENT_LENGTH_MAX = 32 * 1024 * 1024

/**
 * Yields the events in `bytes`, including events that only have an id. An event without the final empty line is
 * ignored. Errors: REPLY_MALFORMED for an event that is too long; the errors of `bytes`. Source: HTML Living Standard,
 * “Server-sent events”.
 */
export async function* parseEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  let data: string[] = []
  let length = 0
  let id = ''
  let noted = ''
  for await (const line of splitLines(bytes)) {
    if (line === '') {
      if (data.length > 0 || noted !== id) {
        id = noted
        yield { data: data.join('\n'), id }
      }
      data = []
      length = 0
      continue
    }
    const [, field = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (field === 'data') data.push(value)
    length += line.length
    if (length > EVENT_LENGTH_MAX) throw tooLong()
    if (field === 'id' && !value.includes('\0')) noted = value
  }
}

/** Yields the lines in `bytes`. A line ends with CR, LF or CRLF. */
async function* splitLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  // A CR at the end of a part is kept for the next part, because it can be the first half of a CRLF.
  let half = ''
  for await (const part of bytes) {
    const text = half + decoder.decode(part, { stream: true })
    half = text.endsWith('\r') ? '\r' : ''
    const lines = (half === '' ? text : text.slice(0, -1)).split(/\r\n|\n|\r/)
    const last = lines.pop() ?? ''
    for (const line of lines) {
      yield rest + line
      rest = ''
    }
    rest += last
    if (rest.length > EVENT_LENGTH_MAX) throw tooLong()
  }
}

function tooLong(): ClientError {
  return new ClientError('REPLY_MALFORMED', 200, 'an event is longer than any entry can be')
}

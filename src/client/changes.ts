import { parseJson } from '../base/json.ts'
import { ClientError, isTransient } from './error.ts'
import { backOffMs, bytesOf, pathOf, type RequestOptions, type Transport } from './transport.ts'

/** An entry of the ledger. */
export interface Entry {
  readonly serverid: number
  readonly method: string
  readonly db: string
  readonly [member: string]: unknown
}

/** An entry with its position and time. */
export interface Change {
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
  /** Only changes after this position; `start` for all, `now` (default) for future ones. */
  readonly since?: string | undefined
}

/** Maximum delay before the stream is opened again. */
const WAIT_MS_MAX = 5_000
/** Timeout without data. A node sends something more often. */
const SILENCE_MS_MAX = 60_000

/**
 * Yields the changes of the chain of `serverId` in order, each once. An interrupted stream is resumed, with
 * unlimited attempts, until the loop exits or `signal` aborts. Errors: ClientError for failures that are not
 * transient, e.g. TOKEN_INVALID; the reason of `signal`.
 */
export async function* changesOf(
  transport: Transport,
  serverId: number,
  { databases = [], since = 'now', signal }: ChangesOptions,
): AsyncGenerator<Change> {
  const call = {
    method: 'GET',
    path: pathOf('/api/ledgers/{serverid}/changes', { serverid: serverId }),
    query: { db: databases, since },
    lasts: 'reply',
  } as const
  let last = ''
  for (let failures = 0; ; ) {
    // Closes the connection when the loop exits.
    const left = new AbortController()
    const headers: Record<string, string> = last === '' ? {} : { 'last-event-id': last }
    try {
      const ends = signal === undefined ? left.signal : AbortSignal.any([left.signal, signal])
      const bytes = await transport.read({ ...call, headers, signal: ends }, bytesOf)
      for await (const { data, id } of eventsIn(livelyBytes(bytes, left))) {
        last = id
        if (data === '') continue
        failures = 0
        yield changeIn(data)
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (!isTransient(error)) throw error
    } finally {
      left.abort()
    }
    failures += 1
    await transport.timing.sleep(backOffMs(failures, WAIT_MS_MAX, transport.timing.random), signal)
  }
}

/** Yields `bytes`; aborts after SILENCE_MS_MAX without data. Errors: UNREACHABLE if the stream is interrupted. */
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

function changeIn(data: string): Change {
  try {
    // The type is declared by the schema of the node and not checked.
    return parseJson(data) as Change
  } catch (error) {
    throw new ClientError('REPLY_MALFORMED', 200, 'an event that is not JSON', { cause: error })
  }
}

interface ServerEvent {
  /** Empty for an event that only has an id. */
  readonly data: string
  /** The last id so far, or empty. */
  readonly id: string
}

/** Maximum length of a line in UTF-16 units: more than an entry with an item of the maximum size. */
const LINE_LENGTH_MAX = 32 * 1024 * 1024

/**
 * Yields the events in `bytes`, including those that only have an id. An event without the final empty line is
 * ignored. Errors: REPLY_MALFORMED for a line that is too long; those of `bytes`. Source: HTML Living Standard,
 * “Server-sent events”.
 */
export async function* eventsIn(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  let data: string[] = []
  let id = ''
  let noted = ''
  for await (const line of linesIn(bytes)) {
    if (line === '') {
      if (data.length > 0 || noted !== id) {
        id = noted
        yield { data: data.join('\n'), id }
      }
      data = []
      continue
    }
    const [, field = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (field === 'data') data.push(value)
    if (field === 'id' && !value.includes('\0')) noted = value
  }
}

/** Lines end with CR, LF or both. */
async function* linesIn(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const part of bytes) {
    rest += decoder.decode(part, { stream: true })
    // A CR at the end may be half of a CRLF.
    const isHalf = rest.endsWith('\r')
    const lines = (isHalf ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/)
    rest = (lines.pop() ?? '') + (isHalf ? '\r' : '')
    yield* lines
    if (rest.length > LINE_LENGTH_MAX) {
      throw new ClientError('REPLY_MALFORMED', 200, 'an event is longer than any entry can be')
    }
  }
}

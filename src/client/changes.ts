import { parseJson } from '../base/json.ts'
import { backOffMs } from './back-off.ts'
import { ClientError, isPassing } from './error.ts'
import { eventsIn } from './event-stream.ts'
import { bytesOf, pathOf, type RequestOptions, type Transport } from './transport.ts'

/** An entry of the ledger: what was changed. */
export interface Entry {
  readonly serverid: number
  readonly method: string
  readonly db: string
  readonly [member: string]: unknown
}

/** An entry with its place and time. */
export interface Change {
  /** `<height>.<index>`: to go on after it another time. */
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly entry: Entry
}

/** Which changes. */
export interface ChangesOptions extends RequestOptions {
  /** Only of these databases. */
  readonly databases?: readonly string[] | undefined
  /** After this position; `start` for all entries, `now`, the default, for those to come. */
  readonly since?: string | undefined
}

/** The longest wait before the stream is opened again. */
const WAIT_MS_MAX = 5_000
/** A node shows signs of life more often than this. */
const SILENCE_MS_MAX = 60_000

/**
 * The changes of the chain of `serverId`, in their order, each once. A stream that breaks off is
 * opened again where it was, as often as it takes, until the loop is left or `signal` aborts.
 * Errors: ClientError for what will not pass, e.g. TOKEN_INVALID; the reason of `signal`.
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
    // Ends the connection when the loop is left.
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
      if (!isPassing(error)) throw error
    } finally {
      left.abort()
    }
    failures += 1
    await transport.timing.sleep(backOffMs(failures, WAIT_MS_MAX, transport.timing.random), signal)
  }
}

/**
 * `bytes`, given up after a silence that a node that is there would not keep.
 * Errors: UNREACHABLE when they break off.
 */
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
      throw new ClientError('UNREACHABLE', 0, 'the stream broke off', { cause: error })
    } finally {
      clearTimeout(silence)
    }
  }
}

function changeIn(data: string): Change {
  try {
    // The node's own schema is the promise of its shape.
    return parseJson(data) as Change
  } catch (error) {
    throw new ClientError('REPLY_MALFORMED', 200, 'an event that is no JSON', { cause: error })
  }
}

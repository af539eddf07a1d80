import { ClientError } from './error.ts'

/** One server-sent event. */
export interface ServerEvent {
  /** Empty where it was none: a note of how far the stream has come. */
  readonly data: string
  /** The last id so far; empty when there was none. */
  readonly id: string
}

/** Longest line that is taken, UTF-16 units: an entry of the longest item, with room. */
const LINE_LENGTH_MAX = 32 * 1024 * 1024

/**
 * The events in `bytes`, also those without data, which only bring an id. An event that was not ended
 * by an empty line never was. Errors: REPLY_MALFORMED for a line without end; those of `bytes`.
 * Source: HTML Living Standard, “Server-sent events”.
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
    // A CR at the very end may be half of a line end.
    const isHalf = rest.endsWith('\r')
    const lines = (isHalf ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/)
    rest = (lines.pop() ?? '') + (isHalf ? '\r' : '')
    yield* lines
    if (rest.length > LINE_LENGTH_MAX) {
      throw new ClientError('REPLY_MALFORMED', 200, 'an event is longer than any entry can be')
    }
  }
}

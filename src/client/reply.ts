import { isJsonObject } from '../base/json.ts'
import { parseForeignJson, StrictJsonError } from '../base/strict-json.ts'
import { ClientError } from './error.ts'

/** Returns the JSON of a reply with `status` true. Does not check that the JSON has the type `Reply`. */
export async function readJson<Reply>(reply: Response): Promise<Reply> {
  const value = await readJsonValue(reply)
  if (isJsonObject(value) && value.status === true) return value as Reply
  throw malformed(reply)
}

/** Returns the text of a reply with the type `text/plain`, or the JSON of any other reply. */
export async function readDeclared<Reply>(reply: Response): Promise<Reply> {
  if (!hasType(reply, 'text/plain')) return readJson(reply)
  const text: unknown = await readText(reply)
  return text as Reply
}

/** Returns a function like `readJson` that also requires the members `names` to be lists. */
export function jsonWithLists<Reply>(...names: readonly (keyof Reply)[]) {
  return jsonWhere<Reply>((value) => names.every((name) => Array.isArray(value[name])))
}

/** Returns a function like `readJson` that also requires the members `names` to be numbers. */
export function jsonWithNumbers<Reply>(...names: readonly (keyof Reply)[]) {
  return jsonWhere<Reply>((value) => names.every((name) => typeof value[name] === 'number'))
}

function jsonWhere<Reply>(isWhole: (value: Reply) => boolean) {
  return async (reply: Response): Promise<Reply> => {
    const value = await readJson<Reply>(reply)
    if (isWhole(value)) return value
    throw malformed(reply)
  }
}

/** Maximum bytes of a reply that is not streamed, because a string cannot be much longer. */
const REPLY_BYTES_MAX = 256 * 1024 * 1024

/** Returns the text of a reply. Errors: REPLY_TOO_LARGE. */
export async function readText(reply: Response): Promise<string> {
  if (reply.body === null) return ''
  const reader = reply.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    length += value.length
    if (length > REPLY_BYTES_MAX) {
      await reader.cancel()
      throw tooLarge(reply, `the reply has more than ${REPLY_BYTES_MAX} bytes`)
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** Returns the body of a reply with server-sent events. */
export async function requireEventStream(reply: Response): Promise<ReadableStream<Uint8Array>> {
  // Refuses other types, because an HTML page from a proxy would be read as a stream without events.
  if (!hasType(reply, 'text/event-stream')) throw malformed(reply)
  return requireBody(reply)
}

function hasType({ headers }: Response, type: string): boolean {
  return headers.get('content-type')?.split(';')[0]?.trim() === type
}

export async function requireBody(reply: Response): Promise<ReadableStream<Uint8Array>> {
  if (reply.body === null) throw malformed(reply)
  return reply.body
}

/** Returns the error that the refusal of a node describes. */
export async function readRefusal(reply: Response): Promise<ClientError> {
  const value = await readJsonValue(reply)
  const { status } = reply
  if (!isJsonObject(value) || value.status !== false) return malformed(reply)
  // Only the reply for a missing item (404) has no `code`.
  if (value.code === undefined && status !== 404) return malformed(reply)
  const { code = 'ITEM_NOT_FOUND', message = value.code ?? 'there is no such item' } = value
  const retryAfterMs = parseRetryAfter(reply)
  return new ClientError(String(code), status, String(message), { retryAfterMs })
}

/** Returns the JSON of a reply, or null if the reply is not JSON. Errors: REPLY_TOO_LARGE. */
async function readJsonValue(reply: Response): Promise<unknown> {
  const text = await readText(reply)
  try {
    return parseForeignJson(text)
  } catch (error) {
    const isTooLarge = error instanceof StrictJsonError && error.code === 'JSON_TOO_LARGE'
    if (isTooLarge) throw tooLarge(reply, error.message)
    return null
  }
}

function tooLarge({ status }: Response, message: string): ClientError {
  return new ClientError('REPLY_TOO_LARGE', status, message)
}

/** Returns the error for a reply that does not come from a node. */
export function malformed(reply: Response): ClientError {
  const { status } = reply
  const message = `the reply (${status}) does not come from a node`
  return new ClientError('REPLY_MALFORMED', status, message, {
    retryAfterMs: parseRetryAfter(reply),
  })
}

/** Returns the position after a page. Errors: REPLY_MALFORMED, because with that of the page, the list would never end. */
export function requireNextPage(next: unknown, previous: string | undefined): string {
  if (typeof next === 'string' && next !== previous) return next
  throw new ClientError('REPLY_MALFORMED', 200, 'the reply has no cursor for the next page')
}

/** Returns the delay in `Retry-After`, or null. Ignores a date, because the clocks may differ. */
function parseRetryAfter({ headers }: Response): number | null {
  const seconds = headers.get('retry-after') ?? ''
  return /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1_000 : null
}

/** Whether a reply is a redirect. Browsers hide its status and location, and set the type `opaqueredirect`. */
export function isRedirect({ type, status }: Response): boolean {
  return type === 'opaqueredirect' || (status >= 300 && status < 400 && status !== 304)
}

export async function redirected(reply: Response, url: string): Promise<ClientError> {
  // Cancels the body, because otherwise the connection would stay open.
  await reply.body?.cancel()
  const location = reply.headers.get('location')
  const target = location === null ? '' : ` to ${location}`
  const message = `${url} redirects${target}; create the client with the URL of the node itself`
  return new ClientError('REPLY_MALFORMED', reply.status, message)
}

import { errorCode } from '../../base/errors.ts'
import { serverUrl } from '../../base/url.ts'
import { PROVEN_BLOCK_BYTES_MAX } from '../../chain/index.ts'
import { ClientError, LedgerClient, type Operations } from '../../client/index.ts'
import { EXIT, Exit } from '../exit.ts'

/** Default time limit of a reply. */
const REPLY_MS = 30_000
/** Enough for the longest part of a list, a block, with the frame of the list. */
const REPLY_BYTES_MAX = PROVEN_BLOCK_BYTES_MAX + 1024

/** Characters that `fetch` can send. Source: WHATWG Fetch, header values. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export interface NodeReply {
  readonly status: number
  readonly bytes: Buffer
}

interface NodeRequest extends Omit<RequestInit, 'headers'> {
  readonly headers?: Readonly<Record<string, string>>
}

interface FetchBounds {
  readonly timeoutMs?: number
  readonly bytesMax?: number
  readonly fetch?: typeof fetch
}

/**
 * Fetches a reply from a node. The size is limited, so that an unexpected server cannot exhaust the memory. Redirects
 * are not followed, because they would send secrets to another server. Errors: Exit (usage) for the value of a header,
 * which the message omits, because it may be a secret; Error with the reason as its message.
 */
export async function fetchFromNode(
  address: URL | string,
  request: NodeRequest = {},
  bounds: FetchBounds = {},
): Promise<NodeReply> {
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    if (HEADER_VALUE.test(value)) continue
    const message = `the value of the header ${name} has a character that no header can have`
    throw new Exit(EXIT.usage, message)
  }
  const { timeoutMs = REPLY_MS, bytesMax = REPLY_BYTES_MAX, fetch = globalThis.fetch } = bounds
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const read = limitReplies(bytesMax, fetch)
    const reply = await read(address, { ...request, redirect: 'error', signal })
    return { status: reply.status, bytes: Buffer.from(await reply.arrayBuffer()) }
  } catch (error) {
    if (signal.aborted) throw new Error(`no reply within ${timeoutMs} ms`, { cause: error })
    throw new Error(findReason(error), { cause: error })
  }
}

/** A running node, from the flags --url and --token. */
export interface NodeAddress {
  /** For example http://127.0.0.1:4126. Requests keep its path. */
  readonly url: string
  readonly token?: string | undefined
}

/** Returns a client of the node, which sends each request once and limits replies. Errors: UrlError. */
export function connectNode(
  { url, token }: NodeAddress,
  { timeoutMs }: { readonly timeoutMs?: number } = {},
): LedgerClient {
  const limited = limitReplies(REPLY_BYTES_MAX, fetch)
  return new LedgerClient(serverUrl(url), { token, timeoutMs, retries: 0, fetch: limited })
}

/** Returns `fetch` with an error for replies of more than `bytesMax` bytes. */
function limitReplies(bytesMax: number, fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (address, request) => {
    const reply = await fetch(address, request)
    let length = 0
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(part, output) {
        length += part.length
        if (length <= bytesMax) return output.enqueue(part)
        const message = `the reply has more than ${bytesMax} bytes`
        output.error(new ClientError('REPLY_TOO_LARGE', reply.status, message))
      },
    })
    return new Response(reply.body?.pipeThrough(limit) ?? null, reply)
  }
}

/**
 * Calls an operation of the ledger API of a node. Errors: UrlError; Exit (finding) if the node does not answer or
 * rejects the request; Exit (usage) if a name cannot be part of a request.
 */
export async function callNode<Key extends keyof Operations>(
  node: NodeAddress,
  operation: Key,
  input: Operations[Key]['input'],
): Promise<Operations[Key]['reply']> {
  try {
    return await connectNode(node).request(operation, input)
  } catch (error) {
    throw nodeExit(error, node)
  }
}

/** Returns the Exit for a failed request to a node; returns other errors unchanged. */
export function nodeExit(error: unknown, { url }: NodeAddress): unknown {
  if (!(error instanceof ClientError)) return error
  const { code, status, message } = error
  const exit = (text: string, exitCode: number = EXIT.finding) =>
    new Exit(exitCode, text, { cause: error })
  if (code === 'NAME_INVALID' || code === 'VALUE_INVALID') return exit(message, EXIT.usage)
  if (code === 'UNREACHABLE') return exit(`no node answers at ${url}: ${findReason(error)}`)
  if (code === 'TIMEOUT') return exit(`no node answers at ${url}: ${message}`)
  if (code === 'REPLY_TOO_LARGE') {
    return exit(`${message}; select less, or read ${url} with a program that streams, such as curl`)
  }
  if (code !== 'REPLY_MALFORMED') return exit(`the node rejected the request: ${message}`)
  return exit(`the server at ${url} is not a node of daicho: it replied ${status}`)
}

/** Reasons for failed requests whose messages by Node do not tell what to do, by code or name. */
const REASONS: Readonly<Record<string, string>> = {
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not answer with TLS; use http:// instead of https://',
  HTTPParserError: 'its reply is not HTTP',
  UND_ERR_SOCKET: 'it closed the connection; if it expects TLS, use https://',
}

/** Returns the reason of the innermost cause of a failed request, as one line. */
function findReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.cause !== undefined) return findReason(error.cause)
  const { message, name } = error
  const known = REASONS[errorCode(error)] ?? REASONS[name]
  // OpenSSL puts the location in its source around the reason.
  return known ?? /:SSL routines:[^:]*:([^:]+)/.exec(message)?.[1] ?? message
}

import { existsSync, readFileSync, statSync } from 'node:fs'
import type { Json } from '../../base/json.ts'
import { parseForeignJson, StrictJsonError } from '../../base/strict-json.ts'
import { joinUrl } from '../../base/url.ts'
import { PROVEN_BLOCK_BYTES_MAX } from '../../chain/index.ts'
import { EXIT, Exit } from '../exit.ts'

/** Default time limit of a reply. */
const REPLY_MS = 30_000
/** Enough for the longest part of a list, a block, with the frame of the list. */
const REPLY_BYTES_MAX = PROVEN_BLOCK_BYTES_MAX + 1024

export interface NodeReply {
  readonly status: number
  readonly bytes: Buffer
}

/** A reply that is too long, or that arrives too slowly. A shorter reply may arrive. */
export class ReplyTooLong extends Error {
  override readonly name = 'ReplyTooLong'
}

/**
 * Fetches a reply from a node. The size is limited, so that an unexpected server cannot exhaust the memory. Redirects
 * are not followed, because they would send secrets to another server. Errors: Error with the reason as its message;
 * ReplyTooLong.
 */
export async function fetchFromNode(
  address: URL | string,
  request: RequestInit = {},
  bounds: { readonly timeoutMs?: number; readonly bytesMax?: number } = {},
): Promise<NodeReply> {
  const { timeoutMs = REPLY_MS, bytesMax = REPLY_BYTES_MAX } = bounds
  const signal = AbortSignal.timeout(timeoutMs)
  let length = 0
  try {
    const reply = await fetch(address, { ...request, redirect: 'error', signal })
    const parts: Uint8Array[] = []
    for await (const part of reply.body ?? []) {
      length += part.length
      if (length > bytesMax) throw new ReplyTooLong(`the reply has more than ${bytesMax} bytes`)
      parts.push(part)
    }
    return { status: reply.status, bytes: Buffer.concat(parts) }
  } catch (error) {
    if (error instanceof ReplyTooLong) throw error
    if (signal.aborted && length > 0) {
      throw new ReplyTooLong(`the reply did not end within ${timeoutMs} ms`, { cause: error })
    }
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    throw new Error(cause instanceof Error ? cause.message : String(cause), { cause: error })
  }
}

/** A running node, from the flags --url and --token. */
export interface NodeAddress {
  /** For example http://127.0.0.1:4126. Requests keep its path. */
  readonly url: string
  readonly token?: string | undefined
}

/** Members of all replies of the ledger. Other members are not validated, because the operator's node is trusted. */
export interface LedgerReply {
  readonly status?: boolean
  readonly code?: string
  readonly message?: string
}

/**
 * Calls the ledger API of a node. Errors: UrlError; Exit (finding) if the node does not answer or rejects the request.
 */
export async function callNode<Reply extends LedgerReply>(
  { url, token }: NodeAddress,
  path: string,
  method: 'GET' | 'POST' | 'DELETE',
  body?: object,
): Promise<Reply> {
  const address = joinUrl(url, path)
  const headers: Record<string, string> = {}
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (token !== undefined) headers['x-access-token'] = token
  const request = { method, headers, body: body === undefined ? null : JSON.stringify(body) }
  const received = await fetchFromNode(address, request)
    .then(({ status, bytes }) => ({ status, value: parseReply(bytes.toString()) }))
    .catch((error: Error) => {
      const what = error instanceof ReplyTooLong ? 'a reply cannot be read' : 'no node answers'
      throw new Exit(EXIT.finding, `${what} at ${url}: ${error.message}`, { cause: error })
    })
  // The members are declared by the caller, because the operator's node is trusted.
  const reply = (received.value ?? {}) as Partial<Reply>
  if (reply.status === true) return reply as Reply
  const refusal = reply.message ?? reply.code
  if (refusal === undefined) {
    const message = `the server at ${url} is not a node of daicho: it replied ${received.status}`
    throw new Exit(EXIT.finding, message)
  }
  throw new Exit(EXIT.finding, `the node rejected the request: ${refusal}`)
}

/** Returns the JSON of a reply, or null. Errors: ReplyTooLong if it has too many members to parse. */
function parseReply(text: string): Json {
  try {
    return parseForeignJson(text)
  } catch (error) {
    if (error instanceof StrictJsonError && error.code === 'JSON_TOO_LARGE') {
      throw new ReplyTooLong(error.message, { cause: error })
    }
    return null
  }
}

/**
 * Returns `text`, or the trimmed content of the file if `text` is the path of a file. Secrets belong in files, because
 * other processes can read the flags.
 */
export function textOrFile(text: string): string {
  const isFile = existsSync(text) && statSync(text).isFile()
  return isFile ? smallFile(text).trim() : text
}

/** Maximum bytes of a file with a key, a token or a policy. */
const SMALL_FILE_BYTES_MAX = 1_048_576

/** Returns the text of a file. Errors: Exit (usage) if the file is too large; system errors. */
export function smallFile(path: string): string {
  const { size } = statSync(path)
  if (size <= SMALL_FILE_BYTES_MAX) return readFileSync(path, 'utf8')
  const message = `${path} is ${size} bytes long; the maximum is ${SMALL_FILE_BYTES_MAX}`
  throw new Exit(EXIT.usage, message)
}

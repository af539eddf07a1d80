import { setTimeout } from 'node:timers/promises'
import { canonicalString } from '../base/canonical-json.ts'
import { CodedError } from '../base/coded-error.ts'
import { isJsonObject, type JsonObject } from '../base/json.ts'
import { joinUrl } from '../base/url.ts'
import type { LoadTarget } from '../exchange/index.ts'
import type { UnitOfWork } from '../ledger/index.ts'
import { EXIT, Exit } from './exit.ts'
import { fetchFromNode, type NodeAddress, parseJsonOrNull } from './node-client.ts'

/** Timeout of a request with a batch. */
const REQUEST_MS = 120_000
/** Maximum attempts while a node is busy, restarts or cannot be reached. The delays add up to 32 s. */
const ATTEMPTS_MAX = 8
const FIRST_DELAY_MS = 250
/** HTTP statuses after which the same request may succeed. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])

/** An error reply of the node with its error code, or UNREACHABLE without a reply. */
class NodeRefusal extends CodedError<string> {
  override readonly name = 'NodeRefusal'
}

interface NodeRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly contentType?: string
  /** Idempotency key of a change. */
  readonly key?: string
}

/**
 * Returns the running node at `address` as a target of `daicho load`. `pause` waits before a repeated request. Errors
 * of its methods: NodeRefusal, UrlError, Exit.
 */
export function nodeTarget(
  address: NodeAddress,
  pause: (delayMs: number) => Promise<unknown> = setTimeout,
): LoadTarget {
  const call = (request: NodeRequest) => callWithRetries(address, request, pause)
  return {
    async createDatabase(db) {
      const reply = await call({ method: 'GET', path: '/api/dbs' })
      if (Array.isArray(reply?.dbs) && reply.dbs.includes(db)) return false
      try {
        await call({ method: 'POST', path: pathOf(db) })
        return true
      } catch (error) {
        // The database can exist without being in `reply.dbs`, because with some tokens, /api/dbs does not list every
        // database that the token may change.
        if (error instanceof NodeRefusal && error.code === 'DATABASE_EXISTS') return false
        throw error
      }
    },
    async record(unit, key) {
      const body = `{"entries":[${unit.map(entryText).join(',')}]}`
      const contentType = 'application/json'
      await call({ method: 'POST', path: '/api/ledgers', body, contentType, key })
    },
    async exists(db, id) {
      return (await call({ method: 'GET', path: pathOf(db, id) })) !== null
    },
    async attach(db, id, { name, contentType, bytes }, key) {
      const path = pathOf(db, id, 'attachments', name)
      await call({ method: 'PUT', path, body: new Uint8Array(bytes), contentType, key })
    },
  }
}

function pathOf(...parts: readonly string[]): string {
  return `/api/${parts.map(encodeURIComponent).join('/')}`
}

function entryText(operation: UnitOfWork[number]): string {
  const { kind, db } = operation
  const head = `{"method":"${kind}","db":${canonicalString(db)}`
  if ('text' in operation) return `${head},"item":${operation.text}}`
  return 'id' in operation ? `${head},"id":${canonicalString(operation.id)}}` : `${head}}`
}

/**
 * Returns the reply, or null if the requested item does not exist. Repeats the request after a transient failure, which
 * is safe because each change of items has an idempotency key.
 */
async function callWithRetries(
  node: NodeAddress,
  request: NodeRequest,
  pause: (delayMs: number) => Promise<unknown>,
): Promise<JsonObject | null> {
  for (let attempt = 1; ; attempt += 1) {
    const result = await callOnce(node, request)
    if (!(result instanceof NodeRefusal)) return result
    if (attempt === ATTEMPTS_MAX) throw result
    await pause(FIRST_DELAY_MS * 2 ** (attempt - 1))
  }
}

/** Sends a request once. Returns a NodeRefusal for a transient failure, and throws for any other failure. */
async function callOnce(
  { url, token }: NodeAddress,
  { method, path, body, contentType, key }: NodeRequest,
): Promise<JsonObject | null | NodeRefusal> {
  const address = joinUrl(url, path)
  const headers: Record<string, string> = {}
  if (token !== undefined) headers['x-access-token'] = token
  if (contentType !== undefined) headers['content-type'] = contentType
  if (key !== undefined) headers['idempotency-key'] = `"${key}"`
  let reply: Awaited<ReturnType<typeof fetchFromNode>>
  try {
    reply = await fetchFromNode(
      address,
      { method, body: body ?? null, headers },
      { timeoutMs: REQUEST_MS },
    )
  } catch (error) {
    const message = `no node answers at ${url}: ${String(error)}`
    return new NodeRefusal('UNREACHABLE', message, { cause: error })
  }
  const value = parseJsonOrNull(reply.bytes.toString())
  const { status, code, message } = isJsonObject(value) ? value : {}
  if (isJsonObject(value) && status === true) return value
  if (status === false && code === undefined && reply.status === 404) return null
  const isTransient = TRANSIENT.has(reply.status)
  if (status !== false || typeof code !== 'string') {
    // A proxy sends its own reply while the node restarts.
    if (isTransient) return new NodeRefusal('UNAVAILABLE', `the server replied ${reply.status}`)
    throw new Exit(EXIT.finding, `the server at ${url} is not a node of daicho`)
  }
  const refusal = new NodeRefusal(code, `the node rejected the request: ${message ?? code}`)
  if (isTransient) return refusal
  throw refusal
}

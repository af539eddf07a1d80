import { hash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { canonicalJson, canonicalString } from '../../base/canonical-json.ts'
import { CodedError, unlessCode } from '../../base/coded-error.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import { joinUrl } from '../../base/url.ts'
import { isOutcomeUnknown, type LoadTarget } from '../../exchange/index.ts'
import type { UnitOfWork } from '../../ledger/index.ts'
import { Exit } from '../exit.ts'
import { fetchFromNode, type NodeAddress } from './node-client.ts'

/** Timeout of a request with a batch. */
const REQUEST_MS = 120_000
/** Maximum attempts while a node is busy, restarts or cannot be reached. The delays add up to 32 s. */
const ATTEMPTS_MAX = 8
const FIRST_DELAY_MS = 250
/** HTTP statuses after which the same request may succeed. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])

/** Codes of refusals that show that the node did not record the request before. */
const CONFLICTS: ReadonlySet<string> = new Set([
  'DATABASE_EXISTS',
  'ITEM_EXISTS',
  'ITEM_NOT_FOUND',
  'PRECONDITION_FAILED',
])
/** System codes of connections that were never opened. */
const UNCONNECTED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/

/**
 * An error reply of the node with its error code. Without a reply of the node, the code is UNREACHABLE, or
 * OUTCOME_UNKNOWN if the request may have arrived.
 */
class NodeRefusal extends CodedError<string> {
  override readonly name = 'NodeRefusal'
  /** Whether the same request may succeed later. */
  readonly isTransient: boolean

  constructor(code: string, message: string, isTransient = false, cause?: unknown) {
    super(code, message, { cause })
    this.isTransient = isTransient
  }
}

interface NodeRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly contentType?: string
  /** Idempotency key of a change. */
  readonly key?: string
  /** The request has no effect on an attachment with this entity tag. */
  readonly unlessTag?: string
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
    async findCreation(db) {
      const reply = await call({ method: 'GET', path: '/api/dbs?created=true' })
      const { dbs, created } = reply ?? {}
      if (!Array.isArray(dbs) || !Array.isArray(created)) return null
      const position = created[dbs.indexOf(db)]
      return position === undefined ? null : String(position)
    },
    async createDatabase(db, key) {
      return unlessCode('DATABASE_EXISTS', call({ method: 'POST', path: apiPath(db), key }))
    },
    async record(unit, key) {
      await call({ ...recordRequest(unit), key })
    },
    async read(db, id) {
      const reply = await call({ method: 'GET', path: apiPath(db, id) })
      return reply === null ? null : canonicalJson(reply.item ?? null)
    },
    async attach(db, id, { name, contentType, bytes }, key) {
      if (!HEADER_VALUE.test(contentType)) {
        throw new NodeRefusal('ATTACHMENT_TYPE_INVALID', 'its content type is not a media type')
      }
      const path = apiPath(db, id, 'attachments', name)
      const unlessTag = `"${hash('sha256', bytes, 'hex')}"`
      const body = new Uint8Array(bytes)
      const request = { method: 'PUT', path, body, contentType, key, unlessTag } as const
      try {
        await unlessCode('PRECONDITION_FAILED', call(request))
      } catch (error) {
        const isOfType = error instanceof NodeRefusal && error.code === 'CONTENT_TYPE_UNKNOWN'
        throw isOfType ? new NodeRefusal('ATTACHMENT_TYPE_INVALID', error.message) : error
      }
    },
  }
}

const HEADER_VALUE = /^[\x20-\x7e]+$/

function apiPath(...parts: readonly string[]): string {
  return `/api/${parts.map(encodeURIComponent).join('/')}`
}

/**
 * Returns the request that records `unit`. A single item is the whole body of a request, because a list of changes
 * would make the largest and the deepest items too large and too deep.
 */
function recordRequest(unit: UnitOfWork): NodeRequest {
  const contentType = 'application/json'
  const [only] = unit.length === 1 ? unit : []
  if (only?.kind === 'create_item') {
    return { method: 'POST', path: apiPath(only.db), body: only.text, contentType }
  }
  if (only?.kind === 'update_item') {
    return { method: 'POST', path: apiPath(only.db, only.id), body: only.text, contentType }
  }
  const body = `{"entries":[${unit.map(entryText).join(',')}]}`
  return { method: 'POST', path: '/api/ledgers', body, contentType }
}

/** Returns an entry with sorted members, because the node brings a body with an idempotency key into canonical form. */
function entryText(operation: UnitOfWork[number]): string {
  const { kind, db } = operation
  const head = `{"db":${canonicalString(db)}`
  const end = `"method":"${kind}"}`
  if ('text' in operation) return `${head},"item":${operation.text},${end}`
  return 'id' in operation
    ? `${head},"id":${canonicalString(operation.id)},${end}`
    : `${head},${end}`
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
  let isUnknown = false
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await callOnce(node, request)
    } catch (error) {
      if (!(error instanceof NodeRefusal)) throw error
      isUnknown ||= request.key !== undefined && isOutcomeUnknown(error)
      if (!error.isTransient || attempt === ATTEMPTS_MAX) {
        if (!isUnknown || CONFLICTS.has(error.code)) throw error
        throw new NodeRefusal('OUTCOME_UNKNOWN', error.message, false, error)
      }
    }
    await pause(FIRST_DELAY_MS * 2 ** (attempt - 1))
  }
}

/** Sends a request once. Returns null if the requested item does not exist. Errors: NodeRefusal, UrlError. */
async function callOnce(
  { url, token }: NodeAddress,
  { method, path, body, contentType, key, unlessTag }: NodeRequest,
): Promise<JsonObject | null> {
  const address = joinUrl(url, path)
  const headers = {
    ...(token !== undefined && { 'x-access-token': token }),
    ...(contentType !== undefined && { 'content-type': contentType }),
    ...(key !== undefined && { 'idempotency-key': `"${key}"` }),
    ...(unlessTag !== undefined && { 'if-none-match': unlessTag }),
  }
  const request = { method, body: body ?? null, headers }
  const received = await fetchFromNode(address, request, { timeoutMs: REQUEST_MS }).catch(
    (error: unknown) => {
      if (error instanceof Exit) throw new NodeRefusal('VALUE_INVALID', error.message)
      const code = UNCONNECTED.test(findSystemCode(error)) ? 'UNREACHABLE' : 'OUTCOME_UNKNOWN'
      throw new NodeRefusal(code, `no node answers at ${url}: ${String(error)}`, true, error)
    },
  )
  const value = parseForeignJsonOrNull(received.bytes.toString())
  const { status, code, message } = isJsonObject(value) ? value : {}
  if (isJsonObject(value) && status === true) return value
  if (status === false && code === undefined && received.status === 404) return null
  const isTransient = TRANSIENT.has(received.status)
  if (status === false && typeof code === 'string') {
    throw new NodeRefusal(code, `the node rejected the request: ${message ?? code}`, isTransient)
  }
  // A proxy sends its own reply while the node restarts.
  const server = isTransient ? 'the server' : `the server at ${url} is not a node of daicho: it`
  throw new NodeRefusal('OUTCOME_UNKNOWN', `${server} replied ${received.status}`, isTransient)
}

/** Returns the system code of a failed connection, such as ECONNREFUSED, or an empty text. */
function findSystemCode(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause) return String(cause.code)
  }
  return ''
}

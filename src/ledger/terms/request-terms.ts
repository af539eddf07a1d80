import type { FastifyRequest } from 'fastify'
import { bodyText } from '../item.ts'
import { type KeyedRequest, parseKey } from './idempotency-key.ts'
import { parsePrecondition } from './precondition.ts'
import type { Precondition, Terms } from './terms.ts'

type Request = Pick<FastifyRequest, 'method' | 'url' | 'headers' | 'body' | 'raw' | 'caller'>

/** The terms of an upload: what it asks for is known when its body has arrived. */
export interface UploadTerms {
  readonly precondition: Precondition | null
  /** Null without an idempotency key. */
  readonly keyed: KeyedRequest | null
}

/**
 * The terms of a request that changes one item or attachment, or undefined when it has none, as most.
 * Idempotency keys are those of the subject of its token.
 * Errors: PRECONDITION_INVALID, IDEMPOTENCY_KEY_INVALID.
 */
export function conditionalTermsOf(request: Request): Terms | undefined {
  return termsOf(preconditionOf(request), request)
}

/** The same for other changes: they have no one state that a precondition could name. */
export function termsOfChange(request: Request): Terms | undefined {
  return termsOf(null, request)
}

/** The same for an upload, before its body arrives. */
export function uploadTermsOf(request: Request): UploadTerms {
  return { precondition: preconditionOf(request), keyed: keyedRequest(request) }
}

/** The precondition of a request, or null when it has none. Errors: PRECONDITION_INVALID. */
export function preconditionOf(request: Pick<Request, 'headers' | 'raw'>): Precondition | null {
  if (!hasConditions(request.raw.rawHeaders)) return null
  const { headers } = request
  return parsePrecondition(headers['if-match'], headers['if-none-match'])
}

/**
 * Whether a header is called `If-…`. The headers are looked at as they came, because Node makes its
 * object of them when it is first asked for one, which costs more than reading an item.
 */
function hasConditions(rawHeaders: readonly string[]): boolean {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.charAt(2) === '-' && name.slice(0, 2).toLowerCase() === 'if') return true
  }
  return false
}

function termsOf(precondition: Precondition | null, request: Request): Terms | undefined {
  const keyed = keyedRequest(request)
  if (precondition === null && keyed === null) return undefined
  return { precondition, once: keyed?.with(bodyText(request.body)) ?? null }
}

function keyedRequest({ method, url, headers, caller }: Request): KeyedRequest | null {
  const header = headers['idempotency-key']
  if (header === undefined) return null
  return parseKey(String(header), caller?.subject ?? '', { method, url })
}

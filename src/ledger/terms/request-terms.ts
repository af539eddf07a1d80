import type { FastifyRequest } from 'fastify'
import type { Json } from '../../base/json.ts'
import { parseOnce } from './idempotency-key.ts'
import { parsePrecondition } from './precondition.ts'
import type { Once, Precondition, Terms } from './terms.ts'

type Request = Pick<FastifyRequest, 'method' | 'url' | 'headers' | 'body' | 'raw'>

/**
 * The terms of a request that changes one item, or undefined when it has none, as most.
 * `subject` is whom its token belongs to. Errors: PRECONDITION_INVALID, IDEMPOTENCY_KEY_INVALID.
 */
export function itemTermsOf(request: Request, subject: string): Terms | undefined {
  return termsOf(preconditionOf(request), onceOf(request, subject))
}

/** The same for other changes: nothing but items has a state that a precondition could name. */
export function termsOfChange(request: Request, subject: string): Terms | undefined {
  return termsOf(null, onceOf(request, subject))
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

function termsOf(precondition: Precondition | null, once: Once | null): Terms | undefined {
  return precondition === null && once === null ? undefined : { precondition, once }
}

function onceOf({ method, url, headers, body }: Request, subject: string): Once | null {
  const header = headers['idempotency-key']
  if (header === undefined) return null
  // The body parser gives JSON or nothing.
  return parseOnce(String(header), subject, { method, url, body: body as Json | undefined })
}

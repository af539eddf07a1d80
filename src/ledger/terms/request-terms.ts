import type { FastifyRequest } from 'fastify'
import type { Json } from '../../base/json.ts'
import { parseOnce } from './idempotency-key.ts'
import { parsePrecondition } from './precondition.ts'
import type { Once, Precondition, Terms } from './terms.ts'

type Request = Pick<FastifyRequest, 'method' | 'url' | 'headers' | 'body'>

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
export function preconditionOf({ headers }: Pick<Request, 'headers'>): Precondition | null {
  return parsePrecondition(headers['if-match'], headers['if-none-match'])
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

import type { FastifyRequest } from 'fastify'
import { parseStrictJson } from '../base/strict-json.ts'
import type { HttpApp } from './component.ts'
import { HttpRefusal } from './refusal.ts'
import { readBody } from './whole-body.ts'

const JSON_TYPES = ['application/json', 'application/merge-patch+json']
const NOT_JSON = new HttpRefusal(
  415,
  'CONTENT_TYPE_UNKNOWN',
  'send the body as Content-Type: application/json',
)
const NULL_BODY = new HttpRefusal(400, 'REQUEST_INVALID', 'the body is null: send an object')

/**
 * Makes `app` take bodies of JSON only, by the strict rules of `parseStrictJson`, for components
 * that keep and hash what they are sent.
 *
 * Whether there is a body is decided by the bytes that arrive: with none, `request.body` is
 * undefined whatever the Content-Type says. The four bytes `null` are refused (400): where a body is
 * optional, Fastify shows its absence to schemas and handlers as null, and would mix them up. Bytes
 * that are not declared as JSON are refused (415),
 * because only such a request can come from a form of another site without being asked first.
 * Errors: StrictJsonError and HttpRefusal, for the component's error reply.
 */
export function takeStrictJson(app: HttpApp): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, async (request: FastifyRequest) => {
    const body = await readBody(request)
    // No route takes the request: it is refused for that, whatever its body holds.
    if (request.is404) return undefined
    return body.length === 0 ? undefined : notNull(parseStrictJson(body))
  })
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const body = await readBody(request)
    if (body.length > 0 && !request.is404) throw NOT_JSON
  })
}

function notNull(value: unknown): unknown {
  if (value === null) throw NULL_BODY
  return value
}

import { utf8Text } from '../base/strict-json.ts'
import { parseStrictText } from '../base/strict-text.ts'
import type { HttpApp } from './component.ts'
import { HttpRefusal } from './refusal.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Reads the text of a JSON body as strictly as `parseStrictText`, but not as values. */
    parseText?: (text: string) => unknown
  }
}

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
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    try {
      const parse = request.routeOptions.config.parseText ?? parseStrictText
      done(null, body.length === 0 ? undefined : notNull(parse(utf8Text(body))))
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)))
    }
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
    done(body.length === 0 ? null : NOT_JSON, undefined)
  })
}

function notNull(value: unknown): unknown {
  if (value === null) throw NULL_BODY
  return value
}

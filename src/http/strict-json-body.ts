import { parseStrictJson } from '../base/strict-json.ts'
import type { HttpApp } from './component.ts'
import { HttpRefusal } from './refusal.ts'

const JSON_TYPES = ['application/json', 'application/merge-patch+json']
const NOT_JSON = new HttpRefusal(
  415,
  'CONTENT_TYPE_UNKNOWN',
  'send the body as Content-Type: application/json',
)

/**
 * Makes `app` take bodies of JSON only, by the strict rules of `parseStrictJson`, for components
 * that keep and hash what they are sent.
 *
 * Whether there is a body is decided by the bytes that arrive: with none, `request.body` is
 * undefined whatever the Content-Type says. Bytes that are not declared as JSON are refused (415),
 * because only such a request can come from a form of another site without being asked first.
 * Errors: StrictJsonError and HttpRefusal, for the component's error reply.
 */
export function takeStrictJson(app: HttpApp): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
    try {
      done(null, body.length === 0 ? undefined : parseStrictJson(body))
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)))
    }
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
    done(body.length === 0 ? null : NOT_JSON, undefined)
  })
}

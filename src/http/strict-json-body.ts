import { parseStrictJson } from '../base/strict-json.ts'
import type { HttpApp } from './component.ts'
import { HttpRefusal } from './refusal.ts'

const JSON_TYPE = /^\s*application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i

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
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (body.length === 0) {
      done(null, undefined)
      return
    }
    try {
      if (!JSON_TYPE.test(request.headers['content-type'] ?? '')) {
        throw new HttpRefusal(
          415,
          'CONTENT_TYPE_UNKNOWN',
          'send the body as Content-Type: application/json',
        )
      }
      done(null, parseStrictJson(body))
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

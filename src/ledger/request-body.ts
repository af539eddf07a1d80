import { canonicalJson, canonicalString } from '../base/canonical-json.ts'
import type { Json } from '../base/json.ts'
import { plainObjects } from '../base/plain-json.ts'
import { parseStrictText } from '../base/strict-text.ts'
import type { Written } from './change.ts'
import { LedgerError } from './errors.ts'
import { type Item, isItem, PlainItem } from './item.ts'
import type { LedgerService } from './service.ts'
import type { Terms } from './terms/terms.ts'

/** Where a body is optional, its absence is shown as null; the bytes `null` were refused. */
export function isAbsent(body: unknown): body is undefined | null {
  return body === undefined || body === null
}

/**
 * The body of `request`, which the request holds no more. What was parsed takes up to twenty times the
 * memory of its text and is needed until a change is made of it: nothing that waits may hold it.
 */
export function takenBody<Body>(request: { body: Body }): Body {
  const { body } = request
  request.body = undefined as Body
  return body
}

/**
 * What `parseStrictText` makes of the text of a body; but of an object or a list of objects that is
 * plainly written, without making values. Errors: StrictJsonError.
 */
export function parseItems(text: string): Json | PlainItem | PlainItem[] {
  const found = plainObjects(text)
  if (found === null) return parseStrictText(text)
  return 'names' in found ? new PlainItem(found) : found.map((object) => new PlainItem(object))
}

/** The canonical text of what a body parser gave; null where there is none. */
export function bodyText(body: unknown): string | null {
  if (isAbsent(body)) return null
  if (body instanceof PlainItem) return body.text()
  if (Array.isArray(body) && body[0] instanceof PlainItem) {
    return `[${body.map((item: PlainItem) => item.text()).join(',')}]`
  }
  return canonicalJson(body as Json)
}

/** `body` as an item. Errors: ITEM_INVALID. */
export function objectOf(body: unknown): Item {
  if (isItem(body)) return body
  throw new LedgerError('ITEM_INVALID', 'an item is a JSON object')
}

/** The three meanings of `POST /api/{db}`, with the text of the reply. */
export function create(
  ledger: LedgerService,
  db: string,
  body: unknown,
  terms: Terms | undefined,
): Promise<{ written: Written; text: string }> {
  if (isAbsent(body)) {
    return ledger
      .createDatabase(db, terms)
      .then((written) => ({ written, text: '{"status":true}' }))
  }
  if (Array.isArray(body)) {
    return ledger.createItems(db, body, terms).then((written) => ({
      written,
      text: `{"status":true,"ids":[${written.ids.map(canonicalString).join(',')}]}`,
    }))
  }
  return ledger.createItem(db, objectOf(body), terms).then((written) => ({
    written,
    text: `{"status":true,"id":${written.ids.map(canonicalString).join()}}`,
  }))
}

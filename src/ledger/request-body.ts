import { canonicalString } from '../base/canonical-json.ts'
import type { Written } from './change.ts'
import { requireItem } from './item.ts'
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
  return ledger.createItem(db, requireItem(body), terms).then((written) => ({
    written,
    text: `{"status":true,"id":${written.ids.map(canonicalString).join()}}`,
  }))
}

import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { LedgerError } from '../errors.ts'

/** Maximum bytes of one item in canonical form. */
export const ITEM_BYTES_MAX = 10 * 1024 * 1024

/** Returns `value` if it is a JSON object. Errors: ITEM_INVALID. */
export function requireItem(value: unknown): JsonObject {
  if (isJsonObject(value)) return value
  throw new LedgerError('ITEM_INVALID', 'an item must be a JSON object')
}

/** Returns the canonical text of `item`. If `id` is given, it replaces the id of `item`. Errors: ITEM_TOO_LARGE. */
export function itemText(item: JsonObject, id?: string): string {
  return requireItemBytes(canonicalJson(id === undefined ? item : { ...item, id }))
}

/** Returns the text of an item. Errors: ITEM_TOO_LARGE. */
export function requireItemBytes(text: string): string {
  if (Buffer.byteLength(text) <= ITEM_BYTES_MAX) return text
  throw new LedgerError('ITEM_TOO_LARGE', `an item can be up to ${ITEM_BYTES_MAX} bytes`)
}

/** Returns the canonical text of a parsed body, or null if the request has no body. */
export function bodyText(body: unknown): string | null {
  return body === undefined || body === null ? null : canonicalJson(body as Json)
}

/** Returns a copy of `target` with the merge patch `patch` (RFC 7396) applied. */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged: JsonObject = { ...target }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else if (!isJsonObject(value)) merged[name] = value
    else {
      const current = merged[name]
      merged[name] = mergePatch(isJsonObject(current) ? current : {}, value)
    }
  }
  return merged
}

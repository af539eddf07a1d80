import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'

/** Returns the JSON object in `text`, or an empty object if `text` is anything else. */
export function jsonMembers(text: string): Readonly<JsonObject> {
  const value = parseForeignJsonOrNull(text)
  return isJsonObject(value) ? value : {}
}

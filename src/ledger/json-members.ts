import { isJsonObject, type JsonObject, parseJson } from '../base/json.ts'

/** Returns the JSON object in `text`, or an empty object if `text` is anything else. */
export function jsonMembers(text: string): Readonly<JsonObject> {
  try {
    const value: unknown = parseJson(text)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}

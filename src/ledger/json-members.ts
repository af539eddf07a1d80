import { isJsonObject, type JsonObject, parseJson } from '../base/json.ts'

/** Returns the members of the JSON object in `text`; no members for any other text. */
export function jsonMembers(text: string): Readonly<JsonObject> {
  try {
    const value: unknown = parseJson(text)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}

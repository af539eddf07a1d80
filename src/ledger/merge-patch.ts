import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'

/**
 * `target` changed by `patch` (RFC 7396): objects are merged member by member, null removes, and
 * anything else replaces. Neither argument is changed.
 */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged: JsonObject = { ...target }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = isJsonObject(value) ? mergePatch(objectOrEmpty(merged[name]), value) : value
  }
  return merged
}

function objectOrEmpty(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {}
}

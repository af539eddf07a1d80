/** Any JSON value, as `JSON.parse` gives it. */
export type Json = null | boolean | number | string | Json[] | JsonObject

/** A JSON object. */
export type JsonObject = { [member: string]: Json }

/** Whether `value` is a JSON object: not null, not an array. Assumes it came from JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

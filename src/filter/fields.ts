import type { JsonObject } from '../base/json.ts'
import type { Fields } from './filter.ts'

/** The members of `resource` that `fields` leaves, in the order they stand. */
export function projected(resource: JsonObject, { kind, names }: Fields): JsonObject {
  const named = new Set(names)
  return Object.fromEntries(
    Object.entries(resource).filter(([name]) => named.has(name) === (kind === 'only')),
  )
}

import type { Json, JsonObject } from '../../base/json.ts'
import { RecordRefusal } from './record.ts'

/** The member of a record whose value becomes the id of the item. */
export interface IdMember {
  readonly name: string
  /** Whether the member is renamed to `id`. Otherwise the item has both members. */
  readonly isRenamed: boolean
}

/** Returns `item` with the value of the member as its `id`. Errors: RecordRefusal. */
export function assignId(item: JsonObject, { name, isRenamed }: IdMember): JsonObject {
  const value = item[name]
  const id = idText(value)
  if (id === null) {
    throw new RecordRefusal(
      value === undefined
        ? `it has no member ${name} for the id`
        : `its member ${name} is neither text nor an integer, so it cannot be the id`,
    )
  }
  if (name !== 'id' && item.id !== undefined && item.id !== id) {
    throw new RecordRefusal(`it has both ${name} and another id; choose one with --id`)
  }
  if (!isRenamed || name === 'id') return { ...item, id }
  const { [name]: _, ...others } = item
  return { ...others, id }
}

function idText(value: Json | undefined): string | null {
  if (typeof value === 'string') return value
  return Number.isSafeInteger(value) ? String(value) : null
}

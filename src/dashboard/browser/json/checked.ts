import { isJsonObject, type Json, type JsonObject } from '../../../base/json.ts'
import {
  parseStrictText,
  StrictJsonError,
  type StrictJsonErrorCode,
} from '../../../base/strict-json.ts'

/** Whether a text can be saved as an item, and else why not. */
export type Checked =
  | { readonly item: JsonObject }
  | {
      readonly why: 'json'
      readonly code: StrictJsonErrorCode
      readonly detail: string
      /** Where in the text, when it is known. */
      readonly place: { readonly line: number; readonly column: number } | null
    }
  | { readonly why: 'not-object' | 'id-not-text' | 'id-changed' }

/** Looks at `text` as the node would; `id` is that of the item, or null for a new one. */
export function checkedItem(text: string, id: string | null): Checked {
  let value: Json
  try {
    value = parseStrictText(text)
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    return { why: 'json', code: error.code, detail: error.message, place: placeIn(error) }
  }
  if (!isJsonObject(value)) return { why: 'not-object' }
  if (value.id !== undefined && typeof value.id !== 'string') return { why: 'id-not-text' }
  if (id !== null && value.id !== undefined && value.id !== id) return { why: 'id-changed' }
  return { item: value }
}

/** Some browsers say where JSON ends to be JSON, at some errors. */
function placeIn({ message }: Error): { line: number; column: number } | null {
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? []
  return line === undefined ? null : { line: Number(line), column: Number(column) }
}

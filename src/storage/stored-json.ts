import { parseJson } from '../base/json.ts'
import { readError } from './errors.ts'

/** The value of a text that a store gave. Errors: STORE_DAMAGED where it is not JSON. */
// biome-ignore lint/suspicious/noExplicitAny: the type of parseJson, which it wraps
export function storedJson(text: string): any {
  try {
    return parseJson(text)
  } catch (error) {
    throw readError(error)
  }
}

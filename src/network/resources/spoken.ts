import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseStrictText, StrictJsonError } from '../../base/strict-json.ts'
import { NetworkError } from '../errors.ts'

// What guests say is nobody's word: it need not be JSON, and where a text is expected anything may stand.

/** Characters of one thing that a guest says: the most that an item may have, and room around it. */
const SPOKEN_LENGTH_MAX = 16 * 1024 * 1024

/**
 * What a guest says, as an object. It is read as strictly as what comes over HTTP, because it is kept in
 * the same ledger. Errors: TRANSACTION_FAILED.
 */
export function spoken(text: string): JsonObject {
  if (text.length > SPOKEN_LENGTH_MAX) {
    const message = `processors hand over ${SPOKEN_LENGTH_MAX} characters at a time at most`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
  const value = parsed(text)
  return isJsonObject(value) ? value : {}
}

function parsed(text: string): Json {
  try {
    return parseStrictText(text)
  } catch (error) {
    if (!(error instanceof StrictJsonError) || error.code === 'JSON_MALFORMED') {
      throw unknownQuestion()
    }
    throw new NetworkError('TRANSACTION_FAILED', error.message, { cause: error })
  }
}

/** Whether `value` is one that a text stands for: no list, no object, and not nothing. */
export function isWord(value: Json | undefined): value is string | number | boolean {
  return value !== undefined && value !== null && typeof value !== 'object'
}

/** The text that stands at a place where a guest says one. Errors: TRANSACTION_FAILED. */
export function wordIn(value: Json | undefined): string {
  // `String` of an object calls what the object says.
  if (!isWord(value)) throw unknownQuestion()
  return String(value)
}

/** A refusal of what the documented functions never say. */
export function unknownQuestion(): NetworkError {
  return new NetworkError('TRANSACTION_FAILED', 'the network cannot be asked for that')
}

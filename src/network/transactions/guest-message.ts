import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseStrictText, StrictJsonError } from '../../base/strict-json.ts'
import { NetworkError } from '../errors.ts'

// Scripts are untrusted: their messages may be invalid JSON, and a member may have any type.

/** Maximum characters of a message: slightly more than the maximum size of an item. */
const MESSAGE_LENGTH_MAX = 16 * 1024 * 1024

/**
 * Parses a message of a guest, as strictly as an HTTP body, because parts of the message are recorded.
 * Errors: TRANSACTION_FAILED.
 */
export function parseGuestMessage(text: string): JsonObject {
  if (text.length > MESSAGE_LENGTH_MAX) {
    const message = `a processor may send at most ${MESSAGE_LENGTH_MAX} characters at a time`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
  const value = parseGuestJson(text)
  return isJsonObject(value) ? value : {}
}

function parseGuestJson(text: string): Json {
  try {
    return parseStrictText(text)
  } catch (error) {
    if (!(error instanceof StrictJsonError) || error.code === 'JSON_MALFORMED') {
      throw unknownMessage()
    }
    throw new NetworkError('TRANSACTION_FAILED', error.message, { cause: error })
  }
}

/** Converts a string, number or boolean to a string. Errors: TRANSACTION_FAILED for other values. */
export function requireString(value: Json | undefined): string {
  // Refuses objects, because `String` uses their members `toString` and `valueOf`, which the script controls.
  if (value === undefined || value === null || typeof value === 'object') throw unknownMessage()
  return String(value)
}

/** Returns the error for a message that the documented functions never send. */
export function unknownMessage(): NetworkError {
  return new NetworkError('TRANSACTION_FAILED', 'the network does not support this request')
}

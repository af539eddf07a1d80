import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseStrictText, StrictJsonError } from '../../base/strict-json.ts'
import { NetworkError } from '../errors.ts'

// Scripts are not trusted: a message of theirs need not be JSON, and any value may stand where a text should.

/** Characters of one message: the most that an item may have, and some more. */
const MESSAGE_LENGTH_MAX = 16 * 1024 * 1024

/**
 * A message of a guest as an object, parsed as strictly as a body over HTTP because parts of it are
 * recorded. Errors: TRANSACTION_FAILED.
 */
export function parseGuestMessage(text: string): JsonObject {
  if (text.length > MESSAGE_LENGTH_MAX) {
    const message = `processors hand over ${MESSAGE_LENGTH_MAX} characters at a time at most`
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
      throw unknownMessage()
    }
    throw new NetworkError('TRANSACTION_FAILED', error.message, { cause: error })
  }
}

/** The text of a string, number or boolean. Errors: TRANSACTION_FAILED. */
export function requireString(value: Json | undefined): string {
  // `String` of an object would call functions of the object.
  if (value === undefined || value === null || typeof value === 'object') throw unknownMessage()
  return String(value)
}

/** The error for messages that the documented functions never send. */
export function unknownMessage(): NetworkError {
  return new NetworkError('TRANSACTION_FAILED', 'the network cannot be asked for that')
}

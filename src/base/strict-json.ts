import { CodedError } from './coded-error.ts'
import { errorMessage } from './errors.ts'
import { type Json, parseJson } from './json.ts'

/**
 * Reason why a text is rejected. The first two codes are for malformed text, the others for JSON that cannot be
 * stored exactly.
 */
export type StrictJsonErrorCode =
  | 'JSON_NOT_UTF8'
  | 'JSON_MALFORMED'
  | 'JSON_TOO_DEEP'
  | 'JSON_TOO_LARGE' // more tokens than JSON_TOKENS_MAX
  | 'JSON_DUPLICATE_MEMBER'
  | 'JSON_FORBIDDEN_MEMBER' // `__proto__`
  | 'JSON_NUMBER_INEXACT'
  | 'JSON_LONE_SURROGATE'

export class StrictJsonError extends CodedError<StrictJsonErrorCode> {
  override readonly name = 'StrictJsonError'
}

/** The HTTP status of each error: 400 for malformed text, 422 for JSON that cannot be stored. */
export const statusOfStrictJson: Record<StrictJsonErrorCode, number> = {
  JSON_NOT_UTF8: 400,
  JSON_MALFORMED: 400,
  JSON_TOO_DEEP: 422,
  JSON_TOO_LARGE: 422,
  JSON_DUPLICATE_MEMBER: 422,
  JSON_FORBIDDEN_MEMBER: 422,
  JSON_NUMBER_INEXACT: 422,
  JSON_LONE_SURROGATE: 422,
}

/** Maximum nesting depth of arrays and objects. Deeper values would overflow the stack of recursive functions. */
export const JSON_DEPTH_MAX = 64
/** Maximum nesting depth of a text of a stranger: an item of JSON_DEPTH_MAX levels, and the reply around it. */
export const FOREIGN_DEPTH_MAX: number = JSON_DEPTH_MAX + 16
/**
 * Maximum commas, colons and opening brackets of a parsed text. Each takes at most 80 bytes of V8's heap, so a short
 * text cannot use up the heap: ten million times `{}` in 30 kB of gzip takes 640 MB. Enough for every item, because an
 * item of 10 MiB has at most seven million of them.
 */
const JSON_TOKENS_MAX = 8_000_000

/**
 * Parses UTF-8 JSON that will be hashed and stored, and rejects values that could not be returned unchanged. In
 * contrast to `JSON.parse`, it rejects texts that a parser would silently change (duplicate members, numbers that no
 * binary64 represents, lone surrogates, invalid UTF-8) and harmful texts (nesting beyond `JSON_DEPTH_MAX`, a member
 * `__proto__`).
 *
 * A number is accepted if its value equals the shortest or the 17-digit decimal form of a binary64 number: `1.0` and
 * `0.10000000000000001` are accepted, `9007199254740993` and `1E400` are not.
 *
 * Errors: StrictJsonError. Source: RFC 8259, RFC 7493 (I-JSON) sections 2.1 to 2.3; docs/decisions/0003-strict-json.md.
 */
export function parseStrictJson(bytes: Uint8Array): Json {
  return parseStrictText(utf8Text(bytes))
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Decodes UTF-8. Errors: JSON_NOT_UTF8. */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes)
  } catch (error) {
    throw new StrictJsonError('JSON_NOT_UTF8', 'the body is not UTF-8', { cause: error })
  }
}

/** Parses a string like `parseStrictJson`. Errors: StrictJsonError. */
export function parseStrictText(text: string): Json {
  // Scans before JSON.parse, because the scan limits depth and tokens without recursion.
  const colons = scan(text, JSON_DEPTH_MAX, true)
  const value = parse(text)
  // Outside strings, the text has one colon per member. The parsed value has fewer members if a name occurs twice.
  if (countMembers(value) !== colons) {
    throw new StrictJsonError('JSON_DUPLICATE_MEMBER', 'an object has a duplicate member')
  }
  return value
}

/**
 * Parses the text of a stranger, such as a reply of another server. Like `parseJson`, but limits depth and tokens before
 * it parses. Errors: StrictJsonError JSON_MALFORMED, JSON_TOO_DEEP, JSON_TOO_LARGE.
 */
export function parseForeignJson(text: string): Json {
  scan(text, FOREIGN_DEPTH_MAX, false)
  return parse(text)
}

/** Like `parseForeignJson`, but returns null for a text that is not accepted. */
export function parseForeignJsonOrNull(text: string): Json {
  try {
    return parseForeignJson(text)
  } catch {
    return null
  }
}

function parse(text: string): Json {
  try {
    return parseJson(text)
  } catch (error) {
    const reason = describeSyntaxError(text, errorMessage(error))
    throw new StrictJsonError('JSON_MALFORMED', `the body is not JSON: ${reason}`, { cause: error })
  }
}

/** Maximum characters of a text in which the position of an error is searched, because each step parses the text. */
const SEARCHED_LENGTH_MAX = 65_536
const AT_POSITION = / at position (\d+)/

/** Returns the message of `JSON.parse` for `text`, with the position, which V8 leaves out of some messages. */
function describeSyntaxError(text: string, message: string): string {
  if (AT_POSITION.test(message)) return message
  let at = text.length
  if (!message.startsWith('Unexpected end')) {
    if (text.length > SEARCHED_LENGTH_MAX) return message
    // The wrong character is the last one of the shortest beginning that no text can complete.
    let low = 0
    while (low < at) {
      const middle = (low + at) >> 1
      if (isBeginning(text.slice(0, middle + 1))) low = middle + 1
      else at = middle
    }
  }
  const lines = text.slice(0, at).split('\n')
  return `${message} at position ${at} (line ${lines.length} column ${(lines.at(-1)?.length ?? 0) + 1})`
}

/** Whether some JSON begins with `text`: the first error of `text` is its end. */
function isBeginning(text: string): boolean {
  try {
    parseJson(text)
    return true
  } catch (error) {
    const message = errorMessage(error)
    const at = AT_POSITION.exec(message)?.[1]
    return at === undefined ? message.startsWith('Unexpected end') : Number(at) >= text.length
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Limits depth and tokens. Returns the number of colons outside strings, which is meaningless for invalid JSON. With
 * `isExact`, rejects numbers and strings that could not be returned unchanged.
 */
function scan(text: string, depthMax: number, isExact: boolean): number {
  let colons = 0
  let others = 0
  let depth = 0
  // Index of the next backslash, so that the text is searched once per backslash and not once per string.
  let backslash = indexOrEnd(text, '\\', 0)
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      const close = indexOrEnd(text, '"', at + 1)
      at = backslash > close ? close : endOfEscapedString(text, at, isExact)
      if (backslash < at) backslash = indexOrEnd(text, '\\', at)
    } else if (unit === 0x3a) {
      colons += 1
    } else if (unit === 0x2c) {
      others += 1
    } else if (unit === 0x7b || unit === 0x5b) {
      others += 1
      depth += 1
      if (depth > depthMax) {
        throw new StrictJsonError('JSON_TOO_DEEP', `nesting exceeds ${depthMax} levels`)
      }
    } else if (unit === 0x7d || unit === 0x5d) {
      depth -= 1
    } else if (unit === 0x2d || (unit >= 0x30 && unit <= 0x39)) {
      at = endOfNumber(text, at, isExact)
    }
    if (colons + others > JSON_TOKENS_MAX) {
      throw new StrictJsonError(
        'JSON_TOO_LARGE',
        `the JSON has more than ${JSON_TOKENS_MAX} commas, colons and opening brackets`,
      )
    }
  }
  return colons
}

function indexOrEnd(text: string, sought: string, from: number): number {
  const index = text.indexOf(sought, from)
  return index === -1 ? text.length : index
}

/** Returns the index of the closing quote of the string that begins at `start`, or the end of the text. */
function endOfEscapedString(text: string, start: number, isExact: boolean): number {
  let escapedSurrogate = false
  let at = start + 1
  for (; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) break
    if (unit !== BACKSLASH) continue
    at += 1
    // Surrogates are \uD800 to \uDFFF. Valid UTF-8 has no lone surrogate, so only an escape can create one.
    if (text.charAt(at) === 'u' && /[dD]/.test(text.charAt(at + 1))) escapedSurrogate = true
  }
  if (escapedSurrogate && isExact) refuseLoneSurrogate(text.slice(start, at + 1))
  return at
}

function refuseLoneSurrogate(literal: string): void {
  const value = parse(literal)
  if (typeof value === 'string' && !value.isWellFormed()) {
    throw new StrictJsonError('JSON_LONE_SURROGATE', 'a string contains a lone surrogate')
  }
}

/** Maximum significant digits of a decimal that always survives conversion to binary64 and back. */
const DIGITS_ALWAYS_EXACT = 15
/** Limits, with a margin, of the range of absolute values in which DIGITS_ALWAYS_EXACT applies. */
const NORMAL_MIN = 1e-290
const NORMAL_MAX = 1e290

/** Returns the index of the last character of the number that starts at `start`. */
function endOfNumber(text: string, start: number, isExact: boolean): number {
  let at = start
  let digits = 0
  let exponent = false
  for (; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit >= 0x30 && unit <= 0x39) digits += 1
    else if (unit === 0x65 || unit === 0x45) exponent = true
    else if (unit !== 0x2e && unit !== 0x2d && unit !== 0x2b) break
  }
  if (isExact && (exponent || digits > DIGITS_ALWAYS_EXACT)) {
    const literal = text.slice(start, at)
    // Fast path: a body full of numbers must not block the event loop for long.
    const isNormal =
      Math.abs(Number(literal)) > NORMAL_MIN && Math.abs(Number(literal)) < NORMAL_MAX
    if (!(digits <= DIGITS_ALWAYS_EXACT && isNormal)) refuseInexactNumber(literal)
  }
  return at - 1
}

/** Whether the value of `literal`, a JSON number, is exactly the number that is written. */
export function isExactNumber(literal: string): boolean {
  const value = Number(literal)
  if (`${value}` === literal || value.toPrecision(17) === literal) return true
  if (!Number.isFinite(value)) return false
  const written = decimal(literal)
  return written === decimal(`${value}`) || written === decimal(value.toPrecision(17))
}

/** Throws JSON_NUMBER_INEXACT unless `literal` has an exact value. */
function refuseInexactNumber(literal: string): void {
  // If it is no number, JSON.parse reports it with its position.
  if (Number.isNaN(Number(literal)) || isExactNumber(literal)) return
  const shown = literal.length > 40 ? `${literal.slice(0, 40)}…` : literal
  throw new StrictJsonError(
    'JSON_NUMBER_INEXACT',
    `the number ${shown} cannot be represented exactly`,
  )
}

/** Normalizes a number to digits and a power of ten, so that equal values have equal texts. */
function decimal(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = (whole + fraction).replace(/^0+/, '')
  // No `replace(/0+$/, '')`: its time grows with the square of the zeros before another digit.
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  const significant = digits.slice(0, end)
  if (significant === '') return '0'
  const power = Number(exponent) - fraction.length + (digits.length - significant.length)
  return `${literal.startsWith('-') ? '-' : ''}${significant}e${power}`
}

/** Counts the members of all objects in `value`. Errors: JSON_FORBIDDEN_MEMBER. */
function countMembers(value: Json): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const element of value) count += countMembers(element)
    return count
  }
  for (const name in value) {
    // This loop finds `__proto__`, because `parseJson` makes it an own member.
    if (name === '__proto__') {
      throw new StrictJsonError('JSON_FORBIDDEN_MEMBER', 'a member must not be named __proto__')
    }
    count += 1
    const member = value[name]
    if (typeof member === 'object' && member !== null) count += countMembers(member)
  }
  return count
}

import type { Json } from './json.ts'

/** Characters that `JSON.stringify` escapes: quotes, backslashes, control characters, lone surrogates. */
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

/**
 * Returns the canonical text of `value` (RFC 8785, JSON Canonicalization Scheme): members sorted by UTF-16 code
 * units, no white space, numbers and strings as ECMAScript prints them.
 *
 * Errors: RangeError for NaN, an infinity or a lone surrogate, which I-JSON excludes (RFC 8785 section 3.2.2).
 * Requests with such values are rejected earlier, so only the chain of another node can contain such a value.
 */
export function canonicalJson(value: Json): string {
  // Stored values are already sorted; printing them directly takes a third of the time.
  const text = isInOrder(value) ? JSON.stringify(value) : null
  // `\ud` may be the escape of a lone surrogate, for which `sortedText` throws.
  return text === null || text.includes('\\ud') ? sortedText(value) : text
}

/** Whether the members of all objects in `value` are sorted and all numbers are finite. */
function isInOrder(value: Json | undefined): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return value !== undefined
  if (Array.isArray(value)) return value.every(isInOrder)
  let before = ''
  for (const name of Object.keys(value)) {
    if (name < before) return false
    before = name
    const member = value[name]
    if (typeof member !== 'string' && !isInOrder(member)) return false
  }
  return true
}

function sortedText(value: Json): string {
  if (typeof value === 'string') return canonicalString(value)
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new RangeError(`no canonical form for ${value}`)
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`
  let text = ''
  // sort() compares UTF-16 code units by default, as RFC 8785 section 3.2.3 requires.
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    text += `${text === '' ? '' : ','}${canonicalString(name)}:${sortedText(member)}`
  }
  return `{${text}}`
}

/** Returns the canonical text of one string, including the quotes. Errors as for `canonicalJson`. */
export function canonicalString(value: string): string {
  if (!NEEDS_ESCAPE.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new RangeError('no canonical form for a lone surrogate')
  // RFC 8785 section 3.2.2.2 prescribes the escapes of JSON.stringify.
  return JSON.stringify(value)
}

import type { Json } from './json.ts'

/** Characters that `JSON.stringify` escapes: quotes, backslashes, controls, lone surrogates. */
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

/**
 * The canonical text of `value` (RFC 8785, JSON Canonicalization Scheme): members sorted by UTF-16
 * code units, no space, numbers and strings as ECMAScript prints them.
 *
 * Errors: RangeError for NaN, an infinity or a lone surrogate, which I-JSON excludes (RFC 8785
 * section 3.2.2). Requests with them are refused before, so they can only come from a foreign chain.
 */
export function canonicalJson(value: Json): string {
  // Stored values are in order already; printing these takes a third of the time.
  const text = isInOrder(value) ? JSON.stringify(value) : null
  // `JSON.stringify` escapes a lone surrogate like this.
  return text === null || text.includes('\\ud') ? sortedText(value) : text
}

/** Whether the members of all objects in `value` are sorted, and its numbers finite. */
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
  // The default order of sort() is that of UTF-16 code units: RFC 8785 section 3.2.3.
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    text += `${text === '' ? '' : ','}${canonicalString(name)}:${sortedText(member)}`
  }
  return `{${text}}`
}

/** The canonical text of one string, with its quotes. Errors as for `canonicalJson`. */
export function canonicalString(value: string): string {
  if (!NEEDS_ESCAPE.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new RangeError('no canonical form for a lone surrogate')
  // RFC 8785 section 3.2.2.2 prescribes the escapes of JSON.stringify.
  return JSON.stringify(value)
}

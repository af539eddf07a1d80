import { isUtf8 } from 'node:buffer'
import type { Json } from './json.ts'
import { parseStrictText, StrictJsonError } from './strict-text.ts'

export {
  JSON_DEPTH_MAX,
  StrictJsonError,
  type StrictJsonErrorCode,
  statusOfStrictJson,
} from './strict-text.ts'

/**
 * Parses UTF-8 JSON that will be hashed and kept, refusing what could not be given back as it came.
 *
 * Stricter than `JSON.parse` where that silently changes data: duplicate members, numbers that no
 * binary64 holds, lone surrogates, bytes that are not UTF-8; and where data could do harm: nesting
 * beyond `JSON_DEPTH_MAX`, a member `__proto__`. Numbers are taken when the text is what a correct
 * printer makes of the double (shortest form, or 17 digits); so `1.0` and `0.10000000000000001`
 * pass, `9007199254740993` and `1E400` do not.
 *
 * Errors: StrictJsonError. Source: RFC 8259, RFC 7493 (I-JSON) sections 2.1 to 2.3;
 * docs/decisions/0003-strict-json.md.
 */
export function parseStrictJson(bytes: Buffer): Json {
  return parseStrictText(utf8Text(bytes))
}

/** The text of `bytes`. Errors: JSON_NOT_UTF8. */
export function utf8Text(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new StrictJsonError('JSON_NOT_UTF8', 'the body is not UTF-8')
  return bytes.toString('utf8')
}

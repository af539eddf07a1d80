import { LedgerError } from '../errors.ts'

/** Longest `Content-Type`, characters. */
const MEDIA_TYPE_LENGTH_MAX = 255
/** Names as they can be registered: RFC 6838 section 4.2. */
const NAME = '[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}'
const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+"
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\[\\t \\x21-\\x7e])*"'
const MEDIA_TYPE = new RegExp(
  `^${NAME}/${NAME}(?:[ \\t]*;[ \\t]*(?:${TOKEN}=(?:${TOKEN}|${QUOTED}))?)*$`,
)

/**
 * Whether `text` is a media type with parameters, fit to be sent back as it came.
 * Errors: ATTACHMENT_TYPE_INVALID. Source: RFC 9110 section 8.3.1.
 */
export function checkMediaType(text: string): void {
  if (text.length <= MEDIA_TYPE_LENGTH_MAX && MEDIA_TYPE.test(text)) return
  throw new LedgerError(
    'ATTACHMENT_TYPE_INVALID',
    `Content-Type is a media type of at most ${MEDIA_TYPE_LENGTH_MAX} characters`,
  )
}

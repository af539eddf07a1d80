import { RE2JS, RE2JSException } from 're2js'
import { errorMessage } from '../base/errors.ts'

/** Thrown for an unusable pattern; the message is shown to the client. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

/** A compiled pattern. Matching takes time proportional to `steps` times the length of the text. */
export interface Pattern {
  readonly compiled: RE2JS
  readonly caseless: boolean
  /** Number of instructions in the compiled program: an upper bound of the work per character. */
  readonly steps: number
}

/** Maximum length of a pattern, UTF-16 units. */
const PATTERN_LENGTH_MAX = 1_024
const GROUP_DEPTH_MAX = 32
/** Maximum size of a pattern after its repetitions are expanded, in characters, classes and groups. */
export const PATTERN_SIZE_MAX = 256
/** Maximum UTF-16 units of a text that are matched. A longer text is matched as if it ended there. */
export const PATTERN_TEXT_MAX = 8_192

/** Returns whether `pattern` matches anywhere in `text`. RE2 never backtracks, so no pattern can hang. */
export function fits(pattern: Pattern, text: string): boolean {
  return pattern.compiled.test(text.slice(0, PATTERN_TEXT_MAX))
}

/**
 * Compiles an SQL LIKE pattern. `%` matches any number of characters, `_` matches one character, and a backslash makes
 * the next character literal. The whole text must match. Errors: PatternError.
 */
export function likePattern(like: string, caseless: boolean): Pattern {
  checkLength(like)
  const parts = like.match(/\\.|[\s\S]/gsu) ?? []
  const source = parts.map((part) => {
    if (part === '%') return `[${ALL}]*`
    if (part === '_') return `[${ALL}]`
    return RE2JS.quote(part.length > 1 && part.startsWith('\\') ? part.slice(1) : part)
  })
  checkSize(parts.length)
  return compile(`^${source.join('')}$`, caseless)
}

/**
 * Compiles a regular expression, `expression` or `/expression/i`.
 *
 * Supports the ECMAScript syntax that RE2 can match in linear time, with ECMAScript's meaning (flag u):
 * alternatives, groups, classes, `.`, anchors, repetitions, `\d \w \s \b`, and character escapes. Look-around, back
 * references and `\p` are not supported. Errors: PatternError.
 */
export function regexpPattern(text: string): Pattern {
  checkLength(text)
  // LoopBack also accepts `^t/i`, without the first slash.
  const form = /^\/(.*)\/([dgimsuvy]*)$/s.exec(text) ?? /^(.*)\/(i)$/s.exec(text)
  const [, inner = text, flags = ''] = form ?? []
  if (!/^[iu]{0,2}$/.test(flags)) {
    throw new PatternError(`the flags ${flags} are not supported, only i`)
  }
  try {
    // Parses with JavaScript first, because its error messages are better than those of RE2.
    new RegExp(inner, 'u')
  } catch (error) {
    throw new PatternError(errorMessage(error))
  }
  return compile(translate(inner), flags.includes('i'))
}

function compile(source: string, caseless: boolean): Pattern {
  try {
    const compiled = RE2JS.compile(source, caseless ? RE2JS.CASE_INSENSITIVE : 0)
    return { compiled, caseless, steps: compiled.programSize() }
  } catch (error) {
    if (error instanceof RE2JSException) throw new PatternError(error.message)
    throw error
  }
}

function checkLength(text: string): void {
  if (text.length <= PATTERN_LENGTH_MAX) return
  throw new PatternError(`it has more than ${PATTERN_LENGTH_MAX} characters`)
}

function checkSize(size: number): void {
  if (size <= PATTERN_SIZE_MAX) return
  throw new PatternError(
    `it is too long: more than ${PATTERN_SIZE_MAX} characters, classes and groups`,
  )
}

// Characters of the ECMAScript classes that RE2 defines differently: RE2's \s matches only ASCII spaces, and RE2's dot
// excludes only \n.
const SPACES =
  '\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}'
const NO_SPACES =
  '\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}' +
  '\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}'
const ALL = '\\x{0}-\\x{10FFFF}'
const DOT = '[^\\n\\r\\x{2028}\\x{2029}]'
/** A class, the start of a group, a repetition, an escape, or one character. */
const TOKEN =
  /\[\^?(?:\\.|[^\]\\])*\]|\(\?[:=!]|\(\?<[=!]?|\\(?:u\{[\da-f]+\}|ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|u[\da-f]{4}|x[\da-f]{2}|.)|\{(\d+)(,?)(\d*)\}|[\s\S]/giu
const CLASS_MEMBER =
  /\\(?:u\{[\da-f]+\}|ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}|u[\da-f]{4}|x[\da-f]{2}|.)|[\s\S]/giu

/** Rewrites a valid ECMAScript expression for RE2. */
function translate(source: string): string {
  const sizes = [0]
  /** Size of the last atom, which a repetition multiplies. */
  let last = 0
  const add = (size: number) => {
    last = size
    sizes.push((sizes.pop() ?? 0) + size)
    checkSize(sizes.at(-1) ?? 0)
  }
  // `add` limits the size, because RE2 itself would compile programs of millions of instructions.
  return source.replaceAll(TOKEN, (token, least?: string, comma?: string, most?: string) => {
    if (token === '(' || token === '(?:') {
      sizes.push(0)
      if (sizes.length > GROUP_DEPTH_MAX) {
        throw new PatternError(`more than ${GROUP_DEPTH_MAX} nested groups`)
      }
      return token
    }
    if (token.startsWith('(')) throw new PatternError(`${token} is not supported, only (?: and (`)
    if (token === ')') {
      add(1 + (sizes.pop() ?? 0))
      return token
    }
    if (least !== undefined) {
      const times = Math.max(1, Number(most || least) + (comma === ',' && most === '' ? 1 : 0))
      add(last * (times - 1))
      return token
    }
    if (/^[*+?]$/.test(token)) return token
    add(1)
    if (/^[|^$]$/.test(token) || /^\\[bB]$/.test(token)) return token
    if (token === '.') return DOT
    if (token.length > 1 && token.startsWith('[')) return characterClass(token)
    if (token === '\\s') return `[${SPACES}]`
    if (token === '\\S') return `[^${SPACES}]`
    return token.startsWith('\\') ? translateEscape(token) : RE2JS.quote(token)
  })
}

function characterClass(token: string): string {
  const isNegated = token.startsWith('[^')
  const members = (token.slice(isNegated ? 2 : 1, -1).match(CLASS_MEMBER) ?? []).map((member) => {
    if (member === '\\s') return SPACES
    if (member === '\\S') return NO_SPACES
    if (member === '\\b') return '\\x08'
    if (member === '\\-') return member
    if (member.startsWith('\\')) return translateEscape(member)
    return member === '-' ? member : RE2JS.quote(member)
  })
  if (members.length > 0) return `[${isNegated ? '^' : ''}${members.join('')}]`
  return isNegated ? `[${ALL}]` : `[^${ALL}]`
}

/** Returns an escape for RE2 with the ECMAScript meaning, inside or outside a class. */
function translateEscape(token: string): string {
  if (/^\\[ux]../.test(token)) {
    // The escapes of two surrogates are one character.
    const units = token.match(/[\da-f]+/gi) ?? []
    const [unit = 0, low] = units.map((hex) => Number.parseInt(hex, 16))
    const point = low === undefined ? unit : String.fromCharCode(unit, low).codePointAt(0)
    return `\\x{${point?.toString(16)}}`
  }
  if (/^\\[dDwWtnrfv]$/.test(token)) return token
  if (/^\\[^a-z0-9]$/i.test(token)) return RE2JS.quote(token.slice(1))
  throw new PatternError(`${token} is not supported`)
}

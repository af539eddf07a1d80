import {
  ANY,
  type CharacterSet,
  CLASSES,
  complement,
  DOT,
  rangesOf,
  union,
} from './character-set.ts'
import { INSTRUCTIONS_MAX, type Instruction, type Pattern } from './pattern.ts'

/** What cannot be read as a pattern; the message is for whoever wrote it. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

/** Longest pattern, UTF-16 units. */
const PATTERN_MAX = 1_024
/** How deep groups nest. */
const GROUPS_MAX = 32

/** A part of a regular expression. */
type Part =
  | { readonly kind: 'take'; readonly set: CharacterSet }
  | { readonly kind: 'look'; readonly at: Extract<Instruction, { kind: 'look' }>['at'] }
  | { readonly kind: 'row' | 'choice'; readonly of: readonly Part[] }
  | { readonly kind: 'repeat'; readonly of: Part; readonly min: number; readonly max: number }

/**
 * The pattern of an SQL LIKE: `%` stands for any run of characters, `_` for one, a backslash takes
 * what follows as it is. The whole text must fit. Errors: PatternError.
 */
export function likePattern(like: string, caseless: boolean): Pattern {
  checkLength(like)
  const of: Part[] = [{ kind: 'look', at: 'start' }]
  const characters = [...like]
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? ''
    if (character === '%')
      of.push(repeated({ kind: 'take', set: ANY }, 0, Number.POSITIVE_INFINITY))
    else if (character === '_') of.push({ kind: 'take', set: ANY })
    else {
      if (character === '\\') at += 1
      of.push(literal(characters[at] ?? '\\'))
    }
  }
  of.push({ kind: 'look', at: 'end' })
  return { instructions: compiled({ kind: 'row', of }), caseless }
}

/**
 * The pattern of a regular expression, found anywhere in a text. Either the expression alone or
 * `/expression/i`. Of ECMAScript's: `| ( ) (?: ) [ ] . ^ $ * + ? {m,n} \d \w \s \b` and their opposites,
 * and escapes of characters; no look-around, no references back, no `\p`. Errors: PatternError.
 */
export function regexpPattern(text: string): Pattern {
  checkLength(text)
  const [, inner, flags] = /^\/(.*)\/([dgimsuvy]*)$/s.exec(text) ?? []
  if (flags !== undefined && !/^[iu]{0,2}$/.test(flags)) {
    throw new PatternError(`the flags ${flags} are not offered, only i`)
  }
  return {
    instructions: compiled(new Reader(inner ?? text).whole()),
    caseless: flags?.includes('i') === true,
  }
}

function checkLength(text: string): void {
  if (text.length > PATTERN_MAX)
    throw new PatternError(`it has more than ${PATTERN_MAX} characters`)
}

function literal(character: string): Part {
  const point = character.codePointAt(0) ?? 0
  return { kind: 'take', set: { ranges: [point, point], negated: false } }
}

function repeated(of: Part, min: number, max: number): Part {
  return { kind: 'repeat', of, min, max }
}

const ESCAPES: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', f: '\f', v: '\v' }

/** Reads a regular expression from left to right. */
class Reader {
  readonly #characters: readonly string[]
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#characters = [...text]
  }

  whole(): Part {
    const part = this.#choice()
    if (this.#at < this.#characters.length) throw new PatternError('a ) has no (')
    return part
  }

  #choice(): Part {
    const of = [this.#row()]
    while (this.#skip('|')) of.push(this.#row())
    const [only] = of
    return of.length === 1 && only !== undefined ? only : { kind: 'choice', of }
  }

  #row(): Part {
    const of: Part[] = []
    for (let next = this.#peek(); next !== undefined; next = this.#peek()) {
      if (next === '|' || next === ')') break
      of.push(this.#repeats(this.#atom()))
    }
    return { kind: 'row', of }
  }

  #atom(): Part {
    const character = this.#next()
    switch (character) {
      case '(':
        return this.#group()
      case '[':
        return { kind: 'take', set: this.#class() }
      case '.':
        return { kind: 'take', set: DOT }
      case '^':
        return { kind: 'look', at: 'start' }
      case '$':
        return { kind: 'look', at: 'end' }
      case '\\':
        return this.#escape()
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        throw new PatternError(
          `${character} stands where nothing is to repeat; write \\${character}`,
        )
      default:
        return literal(character)
    }
  }

  #group(): Part {
    this.#depth += 1
    if (this.#depth > GROUPS_MAX) throw new PatternError(`more than ${GROUPS_MAX} groups nest`)
    if (this.#skip('?') && !this.#skip(':')) {
      throw new PatternError('of groups with (? only (?: is offered')
    }
    const part = this.#choice()
    if (!this.#skip(')')) throw new PatternError('a ( has no )')
    this.#depth -= 1
    return part
  }

  #escape(): Part {
    const next = this.#peek()
    if (next === 'b' || next === 'B') {
      this.#at += 1
      return { kind: 'look', at: next === 'b' ? 'word-edge' : 'no-word-edge' }
    }
    return { kind: 'take', set: this.#escaped() }
  }

  /** What a backslash makes of what follows, in a class too. */
  #escaped(): CharacterSet {
    const character = this.#next()
    const set = CLASSES[character.toLowerCase()]
    if (set !== undefined) return character === character.toLowerCase() ? set : complement(set)
    const point =
      character === 'x' || character === 'u'
        ? this.#hexadecimal(character === 'x' ? 2 : 4)
        : (ESCAPES[character] ?? character).codePointAt(0)
    if (point === undefined || (/[a-z0-9]/i.test(character) && !/[xutnrfv]/.test(character))) {
      throw new PatternError(`\\${character} is not offered`)
    }
    return { ranges: [point, point], negated: false }
  }

  #hexadecimal(digits: number): number {
    const text = this.#characters.slice(this.#at, this.#at + digits).join('')
    this.#at += digits
    if (text.length === digits && /^[0-9a-f]+$/i.test(text)) return Number.parseInt(text, 16)
    throw new PatternError(`\\${digits === 2 ? 'x' : 'u'} needs ${digits} hexadecimal digits`)
  }

  #class(): CharacterSet {
    const negated = this.#skip('^')
    const ranges: number[] = []
    while (!this.#skip(']')) {
      const first = this.#member()
      const from = onlyPoint(first)
      if (this.#peek() !== '-' || this.#characters[this.#at + 1] === ']') {
        ranges.push(...rangesOf(first))
        continue
      }
      this.#at += 1
      const to = onlyPoint(this.#member())
      if (from === null || to === null || from > to)
        throw new PatternError('a range in [ ] is wrong')
      ranges.push(from, to)
    }
    return union(ranges, negated)
  }

  #member(): CharacterSet {
    const character = this.#next()
    if (character !== '\\') {
      const point = character.codePointAt(0) ?? 0
      return { ranges: [point, point], negated: false }
    }
    if (!this.#skip('b')) return this.#escaped()
    return { ranges: [8, 8], negated: false }
  }

  #repeats(part: Part): Part {
    const [min, max] = this.#times() ?? [1, 1]
    if (min === 1 && max === 1) return part
    // Whether it takes as much or as little as it can makes no difference to whether a text fits.
    this.#skip('?')
    if (/^[*+?{]$/.test(this.#peek() ?? '')) throw new PatternError('a repetition is repeated')
    return repeated(part, min, max)
  }

  #times(): [number, number] | null {
    if (this.#skip('*')) return [0, Number.POSITIVE_INFINITY]
    if (this.#skip('+')) return [1, Number.POSITIVE_INFINITY]
    if (this.#skip('?')) return [0, 1]
    if (!this.#skip('{')) return null
    const end = this.#characters.indexOf('}', this.#at)
    const text = this.#characters.slice(this.#at, end === -1 ? undefined : end).join('')
    const [, least, comma, most = ''] = /^(\d{1,4})(,(\d{0,4}))?$/.exec(text) ?? []
    if (end === -1 || least === undefined) throw new PatternError('a { } holds no number of times')
    this.#at = end + 1
    const min = Number(least)
    if (comma === undefined) return [min, min]
    const max = most === '' ? Number.POSITIVE_INFINITY : Number(most)
    if (max < min) throw new PatternError(`{${text}} ends before it begins`)
    return [min, max]
  }

  #peek(): string | undefined {
    return this.#characters[this.#at]
  }

  #next(): string {
    const character = this.#characters[this.#at]
    if (character === undefined) throw new PatternError('it ends too early')
    this.#at += 1
    return character
  }

  #skip(character: string): boolean {
    if (this.#characters[this.#at] !== character) return false
    this.#at += 1
    return true
  }
}

/** The code point of a set that is one character, else null. */
function onlyPoint({ ranges, negated }: CharacterSet): number | null {
  const [first, last] = ranges
  return !negated && ranges.length === 2 && first === last ? (first ?? null) : null
}

function compiled(part: Part): Instruction[] {
  const program: Instruction[] = []
  emit(program, part)
  push(program, { kind: 'done' })
  return program
}

function push(program: Instruction[], instruction: Instruction): number {
  if (program.length >= INSTRUCTIONS_MAX) {
    throw new PatternError(`it is too long: it comes to more than ${INSTRUCTIONS_MAX} steps`)
  }
  return program.push(instruction) - 1
}

function emit(program: Instruction[], part: Part): void {
  switch (part.kind) {
    case 'take':
      push(program, { kind: 'take', set: part.set })
      return
    case 'look':
      push(program, { kind: 'look', at: part.at })
      return
    case 'row':
      for (const each of part.of) emit(program, each)
      return
    case 'choice':
      emitChoice(program, part.of)
      return
    case 'repeat':
      emitRepeat(program, part)
  }
}

/** `fork, one, jump to the end, the others`. */
function emitChoice(program: Instruction[], [one, ...others]: readonly Part[]): void {
  if (one === undefined) return
  if (others.length === 0) {
    emit(program, one)
    return
  }
  const fork = push(program, { kind: 'done' })
  emit(program, one)
  const jump = push(program, { kind: 'done' })
  program[fork] = { kind: 'fork', first: fork + 1, second: program.length }
  emitChoice(program, others)
  program[jump] = { kind: 'jump', to: program.length }
}

function emitRepeat(
  program: Instruction[],
  { of, min, max }: Extract<Part, { kind: 'repeat' }>,
): void {
  for (let time = 0; time < min; time += 1) {
    const before = program.length
    emit(program, of)
    // What takes no steps can be repeated for ever: `((){9999}){9999}`.
    if (program.length === before) break
  }
  if (max === Number.POSITIVE_INFINITY) {
    const fork = push(program, { kind: 'done' })
    emit(program, of)
    push(program, { kind: 'jump', to: fork })
    program[fork] = { kind: 'fork', first: fork + 1, second: program.length }
    return
  }
  for (let time = min; time < max; time += 1) {
    const fork = push(program, { kind: 'done' })
    emit(program, of)
    program[fork] = { kind: 'fork', first: fork + 1, second: program.length }
  }
}

import { type CharacterSet, CLASSES, casesOf, contains } from './character-set.ts'

/** A step of a pattern: take a character of a set, go on in two places, look around, or done. */
export type Instruction =
  | { readonly kind: 'take'; readonly set: CharacterSet }
  | { readonly kind: 'fork'; readonly first: number; readonly second: number }
  | { readonly kind: 'jump'; readonly to: number }
  | { readonly kind: 'look'; readonly at: 'start' | 'end' | 'word-edge' | 'no-word-edge' }
  | { readonly kind: 'done' }

/** A pattern that texts are held against. */
export interface Pattern {
  readonly instructions: readonly Instruction[]
  readonly caseless: boolean
}

/** The most instructions of one pattern. */
export const INSTRUCTIONS_MAX = 256
/** Of a longer text only this many UTF-16 units are looked at, as if it ended there. */
export const PATTERN_TEXT_MAX = 8_192

/**
 * Whether `text` fits `pattern`.
 *
 * All ways through the pattern are walked at once, character by character (Thompson), so the time is
 * at most instructions times characters, whatever the pattern: there is no pattern that hangs, as
 * there are for a matcher that goes back and tries again. docs/decisions/0051-patterns.md.
 */
export function fits(pattern: Pattern, text: string): boolean {
  const seen = text.slice(0, PATTERN_TEXT_MAX)
  const walk = new Walk(pattern.instructions, seen)
  let at = 0
  for (;;) {
    walk.enter(0, at)
    if (walk.isDone) return true
    const character = seen.codePointAt(at)
    if (character === undefined) return false
    at += character > 0xffff ? 2 : 1
    walk.take(pattern.caseless ? casesOf(character) : [character], at)
    if (walk.isDone) return true
  }
}

/** The places of a pattern that the text up to now leads to. */
class Walk {
  isDone = false
  readonly #instructions: readonly Instruction[]
  readonly #text: string
  #places: number[] = []
  /** For each place, where in the text it was last entered: none is entered twice at one. */
  readonly #entered: Int32Array
  readonly #waiting: number[] = []

  constructor(instructions: readonly Instruction[], text: string) {
    this.#instructions = instructions
    this.#text = text
    this.#entered = new Int32Array(instructions.length).fill(-1)
  }

  /** Goes to `place`, before the character at `at`, and on to where no character is needed. */
  enter(place: number, at: number): void {
    this.#waiting.push(place)
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
      if (this.#entered[next] === at) continue
      this.#entered[next] = at
      const instruction = this.#instructions[next]
      switch (instruction?.kind) {
        case 'take':
          this.#places.push(next)
          break
        case 'fork':
          this.#waiting.push(instruction.second, instruction.first)
          break
        case 'jump':
          this.#waiting.push(instruction.to)
          break
        case 'look':
          if (looksLike(instruction.at, this.#text, at)) this.#waiting.push(next + 1)
          break
        case 'done':
          this.isDone = true
      }
    }
  }

  /** Goes on by a character, given in the `forms` that count as it; `at` is behind it. */
  take(forms: readonly number[], at: number): void {
    const places = this.#places
    this.#places = []
    for (const place of places) {
      const instruction = this.#instructions[place]
      if (instruction?.kind !== 'take' || !contains(instruction.set, forms)) continue
      this.enter(place + 1, at)
    }
  }
}

function looksLike(
  what: Extract<Instruction, { kind: 'look' }>['at'],
  text: string,
  at: number,
): boolean {
  if (what === 'start') return at === 0
  if (what === 'end') return at === text.length
  const isEdge = isWord(text.charCodeAt(at - 1)) !== isWord(text.charCodeAt(at))
  return isEdge === (what === 'word-edge')
}

function isWord(character: number): boolean {
  return CLASSES.w !== undefined && contains(CLASSES.w, [character])
}

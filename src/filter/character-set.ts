/** Ranges of code points: both ends included, two numbers a range, ascending and apart. */
export interface CharacterSet {
  readonly ranges: readonly number[]
  readonly negated: boolean
}

const CODE_POINT_MAX = 0x10ffff
const of = (...ranges: number[]): CharacterSet => ({ ranges, negated: false })

/** Every character, line ends too. */
export const ANY: CharacterSet = of(0, CODE_POINT_MAX)
/** What a dot stands for in a regular expression: all but line ends. */
export const DOT: CharacterSet = { ranges: [10, 10, 13, 13, 0x2028, 0x2029], negated: true }
/** `\d`, `\w` and `\s`, as ECMAScript has them. */
export const CLASSES: Readonly<Record<string, CharacterSet>> = {
  d: of(48, 57),
  w: of(48, 57, 65, 90, 95, 95, 97, 122),
  s: of(
    ...[9, 13, 32, 32, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a],
    ...[0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff],
  ),
}

/** All that is not in `set`. */
export function complement(set: CharacterSet): CharacterSet {
  return { ...set, negated: !set.negated }
}

/** The set of all `ranges`, which may overlap and stand in any order. */
export function union(ranges: readonly number[], negated: boolean): CharacterSet {
  const pairs: [number, number][] = []
  for (let at = 0; at < ranges.length; at += 2) pairs.push([ranges[at] ?? 0, ranges[at + 1] ?? 0])
  const merged: number[] = []
  for (const [first, last] of pairs.sort(([one], [other]) => one - other)) {
    const end = merged.at(-1)
    if (end !== undefined && first <= end + 1) merged[merged.length - 1] = Math.max(end, last)
    else merged.push(first, last)
  }
  return { ranges: merged, negated }
}

/** The ranges of `set` itself, a negated one turned into what it leaves. */
export function rangesOf({ ranges, negated }: CharacterSet): number[] {
  if (!negated) return [...ranges]
  const left: number[] = []
  let from = 0
  for (let at = 0; at < ranges.length; at += 2) {
    const [first = 0, last = 0] = ranges.slice(at, at + 2)
    if (first > from) left.push(from, first - 1)
    from = last + 1
  }
  if (from <= CODE_POINT_MAX) left.push(from, CODE_POINT_MAX)
  return left
}

/** Whether `set` has one of `forms`, the code points that count as one character. */
export function contains({ ranges, negated }: CharacterSet, forms: readonly number[]): boolean {
  for (const form of forms) if (isWithin(ranges, form)) return !negated
  return negated
}

/** Finds the range by halving: a class can have hundreds of them. */
function isWithin(ranges: readonly number[], character: number): boolean {
  let low = 0
  let high = ranges.length / 2
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ranges[middle * 2 + 1] ?? 0) < character) low = middle + 1
    else high = middle
  }
  return (ranges[low * 2] ?? Number.POSITIVE_INFINITY) <= character
}

/** `character` in lower and in upper case too. */
export function casesOf(character: number): number[] {
  const text = String.fromCodePoint(character)
  return [character, single(text.toLowerCase(), character), single(text.toUpperCase(), character)]
}

/** The code point of `text`; `otherwise` where that is more than one. */
function single(text: string, otherwise: number): number {
  const first = text.codePointAt(0) ?? otherwise
  return text.length === (first > 0xffff ? 2 : 1) ? first : otherwise
}

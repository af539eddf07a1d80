/** Bytes `start` to `end`, both of them in it. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** Parts of one reply; whoever asks for more is sent the whole. */
const RANGES_MAX = 16

/**
 * The parts of `length` bytes that a `Range` header asks for, in its order; null for the whole, an
 * empty list when none of them can be given.
 *
 * The whole is sent where the header is not understood, asks for more than RANGES_MAX parts, or for
 * parts that together are longer than the whole: overlaps would let a small request cost a large
 * reply. Source: RFC 9110 sections 14.1.2, 14.2 and 17.15.
 */
export function rangesOf(header: string, length: number): ByteRange[] | null {
  const [, list] = /^bytes=(.*)$/i.exec(header) ?? []
  if (list === undefined) return null
  const ranges: ByteRange[] = []
  let count = 0
  for (const text of list.split(',')) {
    const part = text.trim()
    if (part === '') continue
    const [, first = '', last = ''] = /^(\d*)-(\d*)$/.exec(part) ?? []
    if (first === '' && last === '') return null
    count += 1
    if (first === '') {
      const suffix = Math.min(Number(last), length)
      if (suffix > 0) ranges.push({ start: length - suffix, end: length - 1 })
      continue
    }
    if (last !== '' && Number(last) < Number(first)) return null
    const start = Number(first)
    const end = last === '' ? length - 1 : Math.min(Number(last), length - 1)
    if (start < length) ranges.push({ start, end })
  }
  if (count === 0 || count > RANGES_MAX) return null
  const asked = ranges.reduce((sum, { start, end }) => sum + end - start + 1, 0)
  return asked > length ? null : ranges
}

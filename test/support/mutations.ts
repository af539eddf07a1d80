import type { Dice } from './ledger-load.ts'

/** Maximum bytes of a part that one change removes, doubles, reverses or replaces. */
const PART_MAX = 40
const TEXTS = [
  ...[
    '\n',
    '\r\n',
    '\0',
    ' ',
    '\t',
    '"',
    '\\',
    ',',
    '{}',
    '[]',
    'null',
    'true',
    '-',
    '+',
    '=',
    '/',
  ],
  ...[
    '0',
    '00',
    '1',
    '-0',
    '1e3',
    '9007199254740993',
    '1e400',
    '\u200b',
    '\ufeff',
    '\u2028',
    '—',
    'é',
  ],
  ...['__proto__', '"a":1,"a":2,', '\ud83c\udf4e', '[[[[[[[[', '— x AAAAAAA=\n', 'A'.repeat(300)],
]

/** Returns a copy of `bytes` with one to three small changes, which always differs from `bytes`. */
export function mutated(bytes: Buffer, dice: Dice): Buffer {
  for (;;) {
    let changed = bytes
    for (let n = dice.below(3); n >= 0; n -= 1) changed = changedOnce(changed, dice)
    if (!changed.equals(bytes)) return changed
  }
}

function changedOnce(bytes: Buffer, dice: Dice): Buffer {
  const at = dice.below(bytes.length + 1)
  const end = Math.min(at + 1 + dice.below(PART_MAX), bytes.length)
  const [before, part, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, end),
    bytes.subarray(end),
  ]
  switch (dice.below(9)) {
    case 0:
      return Buffer.concat([before, after])
    case 1:
      return Buffer.concat([before, part, part, after])
    case 2:
      return Buffer.concat([before, Buffer.from(part).reverse(), after])
    case 3:
      return Buffer.concat([before, Buffer.from(TEXTS[dice.below(TEXTS.length)] ?? ''), after])
    case 4:
      return Buffer.concat([
        before,
        Buffer.from(TEXTS[dice.below(TEXTS.length)] ?? ''),
        part,
        after,
      ])
    case 5:
      return bytes.subarray(0, at)
    case 6:
      return withLineMoved(bytes, dice)
    case 7:
      return withNumberChanged(bytes, at, dice)
    default: {
      const flipped = Buffer.from(bytes)
      if (at < bytes.length) flipped[at] = (flipped[at] ?? 0) ^ (1 << dice.below(8))
      return flipped
    }
  }
}

/** Copies or moves a line to another place. */
function withLineMoved(bytes: Buffer, dice: Dice): Buffer {
  const lines = bytes.toString('latin1').split('\n')
  const [line = ''] = lines.slice(dice.below(lines.length))
  const rest = dice.below(2) === 0 ? lines : lines.toSpliced(lines.indexOf(line), 1)
  return Buffer.from(rest.toSpliced(dice.below(rest.length + 1), 0, line).join('\n'), 'latin1')
}

/** Adds 1 to the next number after `at`, or subtracts 1. */
function withNumberChanged(bytes: Buffer, at: number, dice: Dice): Buffer {
  const text = bytes.toString('latin1')
  const changed = text
    .slice(at)
    .replace(/\d{1,15}/, (digits) => `${Number(digits) + 1 - 2 * dice.below(2)}`)
  return Buffer.from(text.slice(0, at) + changed, 'latin1')
}

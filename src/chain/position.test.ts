import { expect, it } from 'vitest'
import { heightOf, packPosition, parsePosition, positionText } from './index.ts'

it('a position comes back from its text, and no other text is one', () => {
  for (const [height, index] of [
    [0, 0],
    [1, 9_999],
    [549_755_813_887, 16_383],
  ] as const) {
    const packed = packPosition(height, index)
    expect([parsePosition(positionText(packed)), heightOf(packed)]).toEqual([packed, height])
  }
  for (const text of [
    '',
    '1',
    '1.',
    '.1',
    '1.16384',
    '01.0',
    '1.00',
    '-1.0',
    ' 1.0',
    '549755813888.0',
  ]) {
    expect([text, parsePosition(text)]).toEqual([text, null])
  }
})

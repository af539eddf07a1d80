import fc from 'fast-check'
import type { Json } from '../../base/json.ts'

/** Edge cases of numbers and other values that are written without escapes. */
const EDGES: readonly Json[] = [
  ...[true, false, null, 0, 1e21, 1e-7, 123456789012345680000, 0.1],
  ...['', [], {}],
]

/** Generates JSON values whose names and strings are from `text`, which must not need escapes. */
export function plainValue(text: fc.Arbitrary<string>): fc.Arbitrary<Json> {
  return fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom(...EDGES),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(text, tie('value'), { maxKeys: 4 }),
    ),
  })).value
}

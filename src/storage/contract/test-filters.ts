// Arbitrary items and filters for tests of searches. Not part of the program.
import fc from 'fast-check'
import type { Json } from '../../base/json.ts'

/** Close and distant numbers, texts that sort and match differently, lists and objects. */
const scalar = fc.oneof(
  fc.constantFrom<Json>(
    null,
    true,
    false,
    0,
    1,
    -1,
    5,
    0.1,
    0.30000000000000004,
    1e21,
    9223372036854775000,
  ),
  fc.constantFrom<Json>(
    '',
    '5',
    'a',
    'ab',
    'B',
    'é',
    '\ue000',
    '🍎',
    'a"b\\',
    'line\nbreak',
    'nul\u0000l',
    'null',
  ),
  fc.constantFrom<Json>(
    'x'.repeat(254),
    'x'.repeat(255),
    'x'.repeat(256),
    `${'x'.repeat(255)}🍎`,
    `${'x'.repeat(256)}y`,
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (n === 0 ? 0 : n)),
)
const NAMES = ['a', 'b', 'odd "name\\', '$.x[0]', 'é', '0']
const name = fc.constantFrom(...NAMES)
const value = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3 }),
  ),
})).value
export const item = fc.dictionary(name, value, { maxKeys: 4 })
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join('.'))
/** A path. Usually a single name, because most items have a value there. */
export const shortPath = fc.oneof({ arbitrary: name, weight: 3 }, { arbitrary: path, weight: 2 })
const ordered = scalar.filter((given) => typeof given === 'number' || typeof given === 'string')
const operators: fc.Arbitrary<Json> = fc.oneof(
  scalar,
  fc.record({ eq: scalar }),
  fc.record({ neq: scalar }),
  fc.record({ inq: fc.array(scalar, { maxLength: 4 }) }),
  fc.record({ nin: fc.array(scalar, { maxLength: 4 }) }),
  fc
    .tuple(fc.constantFrom('gt', 'gte', 'lt', 'lte'), ordered)
    .map(([name, given]) => ({ [name]: given })),
  fc.tuple(ordered, ordered).map(([gte, lt]) => ({ gte, lt })),
  fc
    .tuple(fc.integer({ min: -2, max: 6 }), fc.integer({ min: -2, max: 6 }))
    .map((between) => ({ between })),
  fc.record({ exists: fc.boolean() }),
  fc.record({ like: fc.constantFrom('a%', '%', '_', '') }),
  fc.record({ nlike: fc.constantFrom('a%', '%') }),
  fc.record({ ilike: fc.constantFrom('b', 'A%') }),
  fc.record({ regexp: fc.constantFrom('^a', '[b-z]') }),
)
/** Maximum patterns of a filter. */
const PATTERNS_MAX = 16
export const where = fc
  .letrec<{ where: Json }>((tie) => ({
    where: fc.oneof(
      { depthSize: 'small' },
      fc.dictionary(shortPath, operators, { minKeys: 1, maxKeys: 3 }),
      fc.record({ and: fc.array(tie('where'), { minLength: 1, maxLength: 2 }) }),
      fc.record({ or: fc.array(tie('where'), { minLength: 1, maxLength: 3 }) }),
    ),
  }))
  .where.filter(
    (where) => (JSON.stringify(where).match(/like":|regexp":/g) ?? []).length <= PATTERNS_MAX,
  )
export const order = fc.array(
  fc
    .tuple(
      shortPath.filter((text) => !text.includes(' ')),
      fc.constantFrom('', ' ASC', ' DESC'),
    )
    .map((parts) => parts.join('')),
  { maxLength: 2 },
)

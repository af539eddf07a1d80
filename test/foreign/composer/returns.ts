// Transactions with `@returns`, whose processors return the values of expressions.
import type { Random } from './random.ts'

const TYPES = ['Integer', 'Long', 'Double', 'String', 'Boolean', 'DateTime', 'Choice', 'Held']
const RETURNED = TYPES.flatMap((type) => [type, `${type}[]`])

const nameFor = (type: string) => `Return${type.replace('[]', 's')}`

export const RETURN_MODEL: string = [
  'namespace org.oracle.returns',
  'enum Choice { o ONE o TWO }',
  'concept Held { o String x o Integer[] n optional o Choice c optional }',
  'concept Inner extends Held { o Double d default=1.5 }',
  'asset Thing identified by id { o String id }',
  ...RETURNED.map((type) => `@returns(${type}) transaction ${nameFor(type)} { o String code }`),
  '',
].join('\n')

export const RETURN_SCRIPT: string = RETURNED.map((type) => {
  const name = nameFor(type)
  return `/**
 * @param {org.oracle.returns.${name}} tx the code
 * @transaction
 */
async function do${name}(tx) {
  const made = (type, members) => Object.assign(getFactory().newConcept('org.oracle.returns', type), members)
  const thing = getFactory().newResource('org.oracle.returns', 'Thing', 'a')
  return eval('(' + tx.code + ')')
}
`
}).join('\n')

const VALUES = [
  ...['1', '-7', '1.5', '-0', '1e21', '2 ** 53', '2 ** 31', '"7"', 'new Number(1)'],
  ...[
    '"a"',
    '""',
    '"ONE"',
    '"THREE"',
    '"2020-01-01"',
    'new String("a")',
    'true',
    'false',
    '"true"',
  ],
  ...['null', 'undefined', '{}', '{ x: "a" }', 'function () {}', 'Promise.resolve(1)', 'Symbol()'],
  ...[
    'new Date(0)',
    'new Date(NaN)',
    'new Date("2020-02-03T04:05:06.789+02:00")',
    '/a/',
    'tx',
    'thing',
  ],
  ...[
    'made("Held", { x: "a" })',
    'made("Held", {})',
    'made("Held", { x: 1 })',
    'made("Inner", { x: "b", n: [1, 2], c: "TWO" })',
  ],
  ...[
    'made("Held", { x: "a", n: [1.5] })',
    'made("Held", { x: "a", c: "THREE" })',
    'made("Held", { x: "a", y: 1 })',
  ],
  'getSerializer().toJSON(made("Held", { x: "a" }))',
]

/** Returns a transaction with an expression, whose type is often wrong. */
export function generateReturn(random: Random): { type: string; body: Record<string, unknown> } {
  const type = `org.oracle.returns.${nameFor(random.pick(RETURNED))}`
  const value = random.pick(VALUES)
  const code = random.pick([value, value, `[${value}]`, `[${value}, ${random.pick(VALUES)}]`, '[]'])
  return { type, body: { $class: type, code } }
}

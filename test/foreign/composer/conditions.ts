// Generates access rules whose conditions read members of the resource, the participant and the transaction.
import { allFields, type Field, type Type } from './models.ts'
import type { Random } from './random.ts'

export const CONDITION_SCRIPT = `
function sameId(one, other) { return one.getIdentifier() === other.getIdentifier() }
function isShort(text) { return !text || text.length < 3 }
`

/** Returns rules about the members of resources; `people` is the type of the callers. */
export function generateConditions(
  random: Random,
  types: readonly Type[],
  people: Type,
  at: number,
): string {
  const target = random.pick(types.filter(({ kind }) => kind === 'asset' || kind === 'participant'))
  const transactions = types.filter(({ kind }) => kind === 'transaction')
  const during = transactions.length > 0 && random.chance(40) ? random.pick(transactions) : null
  const operation = random.pick([
    'ALL',
    'READ',
    'READ',
    'CREATE',
    'UPDATE',
    'DELETE',
    'READ, UPDATE',
  ])
  const parts = random.several(1, 2, () => condition(random, people, target, during))
  const inside = during === null ? '' : ` transaction(t): "${during.qualified}"`
  return `rule C${at} { description: "" participant(p): "${people.qualified}" operation: ${operation} resource(r): "${target.qualified}"${inside} condition: (${parts.join(random.pick([' && ', ' || ']))}) action: ${random.pick(['ALLOW', 'ALLOW', 'DENY'])} }`
}

function condition(random: Random, people: Type, target: Type, during: Type | null): string {
  const holders: (readonly [string, Type])[] = [
    ['r', target],
    ['r', target],
    ['p', people],
    ...(during === null ? [] : [['t', during] as const]),
  ]
  const [name, type] = random.pick(holders)
  const fields = allFields(type).filter((field) => field.name !== type.id)
  if (fields.length === 0) return random.pick(['sameId(r, p)', '!sameId(r, p)', 'isShort("abc")'])
  const field = random.pick(fields)
  const at = `${name}.${field.name}`
  return random.pick([`${at}`, `!${at}`, `${at} === undefined`, ...comparisons(random, at, field)])
}

function comparisons(random: Random, at: string, field: Field): string[] {
  const { array, relationship, type } = field
  if (array)
    return [
      `${at}.length > 1`,
      `${at} && ${at}.length === 0`,
      `${at}.some(function (x) { return x })`,
    ]
  if (relationship) {
    const other = random.pick(['r', 'p'])
    return [
      `${at}.getIdentifier() === ${other}.getIdentifier()`,
      `${at} && sameId(${at}, ${other})`,
      `${at}.getType() === ${other}.getType()`,
      `${at}.toString().length > 5`,
      `${at} == ${other}`,
    ]
  }
  switch (type) {
    case 'String':
      return [
        `${at} === 'Ab'`,
        `isShort(${at})`,
        `${at}.length > 2`,
        `${at} > 'b'`,
        `/^[A-Z]/.test(${at})`,
      ]
    case 'Boolean':
      return [`${at} === true`, `${at} == 1`]
    case 'DateTime':
      return [
        `${at} instanceof Date`,
        `${at}.getTime() > 1550000000000`,
        `${at} < new Date(1550000000000)`,
      ]
    case 'Integer':
    case 'Long':
    case 'Double':
      return [`${at} > 3`, `${at} % 2 === 0`, `${at} == '7'`]
    default:
      return [
        `${at} === 'RED0'`,
        `typeof ${at} === 'object'`,
        `${at}.getType && ${at}.getType().length > 2`,
      ]
  }
}

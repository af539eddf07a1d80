import type { Primitive, PropertyNode } from '../language/model-file.ts'
import type { Findings, SourceFile } from '../language/source.ts'
import { instantOf } from './instant.ts'
import type { Property, TypeDeclaration } from './model.ts'

const NUMBERS: readonly string[] = ['Double', 'Integer', 'Long']

/** Default, regex and range of a property, where they make sense for its type. */
export function checkedMeta(
  node: PropertyNode,
  primitive: Primitive | null,
  type: TypeDeclaration | null,
  file: SourceFile,
  findings: Findings,
): Pick<Property, 'default' | 'regex' | 'range'> {
  const range = checkedRange(node, primitive, file, findings)
  const regex = checkedRegex(node, primitive, file, findings)
  const preset = checkedDefault(node, primitive, type, file, findings)
  const { default: given, name } = node
  if (given !== null && preset !== null) {
    const outside = typeof preset === 'number' && !inRange(preset, range)
    const unmatched = typeof preset === 'string' && regex?.test(preset) === false
    if (outside || unmatched) {
      findings.error(file, given.at, `the default of ${name} is none of its values`)
    }
  }
  return { default: preset, regex, range }
}

/** Whether `value` is in `range`, whose bounds belong to it. */
export function inRange(value: number, range: Property['range']): boolean {
  if (range === null) return true
  return value >= (range.lower ?? value) && value <= (range.upper ?? value)
}

function checkedRange(
  { range, name }: PropertyNode,
  primitive: Primitive | null,
  file: SourceFile,
  findings: Findings,
): Property['range'] {
  if (range === null) return null
  const { lower, upper, at } = range
  const wrong = (message: string) => {
    findings.error(file, at, message)
    return null
  }
  if (!NUMBERS.includes(primitive ?? '')) return wrong(`${name} is no number to have a range`)
  if (lower === null && upper === null) return wrong(`the range of ${name} has no bound`)
  if (lower !== null && upper !== null && lower > upper) {
    return wrong(`the range of ${name} is empty: ${lower} is above ${upper}`)
  }
  const whole = (bound: number | null) => bound === null || Number.isSafeInteger(bound)
  if (primitive !== 'Double' && !(whole(lower) && whole(upper))) {
    return wrong(`the range of ${name} has integers for bounds`)
  }
  return { lower, upper }
}

function checkedRegex(
  { regex, name }: PropertyNode,
  primitive: Primitive | null,
  file: SourceFile,
  findings: Findings,
): RegExp | null {
  if (regex === null) return null
  if (primitive !== 'String') {
    findings.error(file, regex.at, `${name} is no String to match a regular expression`)
    return null
  }
  try {
    // With `g` or `y` a test begins where the last one ended.
    return new RegExp(regex.source, regex.flags.replace(/[gy]/g, ''))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    findings.error(file, regex.at, `the regular expression of ${name} is none: ${reason}`)
    return null
  }
}

function checkedDefault(
  { default: given, name, array, relationship }: PropertyNode,
  primitive: Primitive | null,
  type: TypeDeclaration | null,
  file: SourceFile,
  findings: Findings,
): string | number | boolean | null {
  if (given === null) return null
  const { value, at } = given
  const wrong = (what: string) => {
    findings.error(file, at, `the default of ${name} must be ${what}`)
    return null
  }
  if (relationship || array || (primitive === null && type?.kind !== 'enum')) {
    findings.error(file, at, `${name} can have no default`)
    return null
  }
  switch (primitive) {
    case 'String':
      return typeof value === 'string' ? value : wrong('a text in quotes')
    case 'Boolean':
      return typeof value === 'boolean' ? value : wrong('true or false')
    case 'DateTime':
      return (typeof value === 'string' ? instantOf(value) : null) ?? wrong('a date and time')
    case 'Double':
      return typeof value === 'number' ? value : wrong('a number')
    case 'Integer':
    case 'Long':
      return Number.isSafeInteger(value) ? value : wrong('an integer')
    case null:
      return type?.values.has(String(value)) === true ? value : wrong(`a value of ${type?.name}`)
  }
}

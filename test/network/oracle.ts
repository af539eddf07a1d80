// A second parser of model files and validator of instances, to compare with daicho's. Both work line by line with
// regular expressions and support only the syntax of the sample networks and the tests.

/** A property, read from one line of a model file. */
export interface OracleProperty {
  readonly name: string
  readonly type: string
  readonly isReference: boolean
  readonly isArray: boolean
  readonly isOptional: boolean
}

/** A type, read from the lines of its declaration. */
export interface OracleType {
  readonly kind: string
  readonly name: string
  readonly isAbstract: boolean
  readonly parent: string | null
  readonly id: string | null
  readonly properties: readonly OracleProperty[]
  readonly values: readonly string[]
}

const HEAD =
  /^(abstract\s+)?(asset|participant|transaction|event|concept|enum)\s+(\w+)(?:\s+extends\s+(\w+))?(?:\s+identified by\s+(\w+))?\s*\{/
const FIELD = /^\s*(o|-->)\s+(\w+)(\[\])?\s+(\w+)(.*)$/
const VALUE = /^\s*o\s+(\w+)\s*$/

/** Returns the types of one model file by short name. */
export function oracleTypes(text: string): Map<string, OracleType> {
  const types = new Map<string, OracleType>()
  const plain = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/.*/g, '')
  for (const block of plain.split(/\n(?=\S)/)) {
    const head = HEAD.exec(block)
    if (head === null) continue
    const [, abstract, kind = '', name = '', parent, id] = head
    const properties: OracleProperty[] = []
    const values: string[] = []
    for (const line of block.split('\n').slice(1)) {
      const value = kind === 'enum' ? VALUE.exec(line) : null
      if (value?.[1] !== undefined) values.push(value[1])
      const field = FIELD.exec(line)
      if (field === null || kind === 'enum') continue
      const [, mark, type = '', array, fieldName = '', rest = ''] = field
      properties.push({
        name: fieldName,
        type,
        isReference: mark === '-->',
        isArray: array !== undefined,
        isOptional: /\boptional\b/.test(rest),
      })
    }
    types.set(name, {
      kind,
      name,
      isAbstract: abstract !== undefined,
      parent: parent ?? null,
      id: id ?? null,
      properties,
      values,
    })
  }
  return types
}

/**
 * Returns all properties of a type, with the inherited properties and the built-in properties of transactions
 * and events.
 */
export function oracleProperties(
  types: ReadonlyMap<string, OracleType>,
  type: OracleType,
): OracleProperty[] {
  const parent = type.parent === null ? undefined : types.get(type.parent)
  if (parent !== undefined) return [...oracleProperties(types, parent), ...type.properties]
  const own = (name: string, of: string) => ({
    ...{ name, type: of, isReference: false, isArray: false, isOptional: false },
  })
  if (type.kind === 'transaction') {
    return [own('transactionId', 'String'), own('timestamp', 'DateTime'), ...type.properties]
  }
  if (type.kind === 'event') {
    return [own('eventId', 'String'), own('timestamp', 'DateTime'), ...type.properties]
  }
  return [...type.properties]
}

/** Returns the name of the identifying property of a type, or null. */
function oracleId(types: ReadonlyMap<string, OracleType>, type: OracleType): string | null {
  if (type.kind === 'transaction') return 'transactionId'
  if (type.kind === 'event') return 'eventId'
  const parent = type.parent === null ? undefined : types.get(type.parent)
  return type.id ?? (parent === undefined ? null : oracleId(types, parent))
}

/** Returns whether `type` is `wanted` or one of its subtypes. */
export function oracleIsA(
  types: ReadonlyMap<string, OracleType>,
  type: string,
  wanted: string,
): boolean {
  if (type === wanted) return true
  const parent = types.get(type)?.parent ?? null
  return parent !== null && oracleIsA(types, parent, wanted)
}

/** Returns whether `value` is an instance of `wanted`. Dates must have the format that the generators use. */
export function oracleAccepts(
  types: ReadonlyMap<string, OracleType>,
  namespace: string,
  wanted: string,
  value: unknown,
  strictNumbers: boolean,
): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const members = new Map(Object.entries(value))
  const named = members.has('$class') ? members.get('$class') : `${namespace}.${wanted}`
  if (typeof named !== 'string' || !named.startsWith(`${namespace}.`)) return false
  const type = types.get(named.slice(namespace.length + 1))
  if (type === undefined || type.isAbstract || !oracleIsA(types, type.name, wanted)) return false
  const properties = oracleProperties(types, type)
  const id = oracleId(types, type)
  for (const name of members.keys()) {
    if (name !== '$class' && !properties.some((property) => property.name === name)) return false
  }
  return properties.every((property) => {
    const member = members.get(property.name) ?? null
    if (member === null) return property.isOptional || property.isArray
    if (property.name === id && member === '') return false
    if (!property.isArray) return acceptsOne(property, member)
    return Array.isArray(member) && member.every((each) => acceptsOne(property, each))
  })

  function acceptsOne({ type: of, isReference }: OracleProperty, one: unknown): boolean {
    if (isReference) return acceptsReference(of, one)
    switch (of) {
      case 'String':
        return typeof one === 'string'
      case 'Boolean':
        return typeof one === 'boolean'
      case 'Double':
        return typeof one === 'number'
      case 'Integer':
      case 'Long':
        return typeof one === 'number' && (!strictNumbers || one % 1 === 0)
      case 'DateTime':
        return typeof one === 'string' && /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T/.test(one)
    }
    const declared = types.get(of)
    if (declared?.kind === 'enum') return declared.values.some((each) => each === one)
    return oracleAccepts(types, namespace, of, one, strictNumbers)
  }

  function acceptsReference(of: string, one: unknown): boolean {
    if (typeof one !== 'string' || one === '') return false
    if (!one.includes('#')) return !one.startsWith('resource:')
    const [type = '', id = ''] = one.replace(/^resource:/, '').split('#')
    if (!type.startsWith(`${namespace}.`) || id === '') return false
    const name = type.slice(namespace.length + 1)
    return types.has(name) && oracleIsA(types, name, of)
  }
}

import type { Json, JsonObject } from '../../base/json.ts'
import {
  type Model,
  type Property,
  type Returned,
  SYSTEM_NAMESPACE,
  type TypeDeclaration,
} from '../../network/index.ts'

// OpenAPI 3.0 schemas of the types in a network's model.

/** Members of a transaction that the server assigns. */
const ASSIGNED = ['transactionId', 'timestamp']
/** Maximum nesting depth of examples. */
const EXAMPLE_DEPTH = 4
/** Maximum number of members of an example, at all levels together. */
const EXAMPLE_MEMBERS_MAX = 1_000

export function referenceTo({ qualifiedName }: TypeDeclaration): JsonObject {
  return { $ref: `#/components/schemas/${qualifiedName}` }
}

export function instanceSchema(type: TypeDeclaration): JsonObject {
  const isTransaction = type.kind === 'transaction'
  const properties: JsonObject = {
    $class: { type: 'string', default: type.qualifiedName, description: 'The type' },
  }
  const required: string[] = []
  for (const [name, property] of type.properties) {
    const isAssigned = isTransaction && ASSIGNED.includes(name)
    properties[name] = { ...propertySchema(property), ...(isAssigned ? { readOnly: true } : {}) }
    const needed = !property.optional && property.default === null && !isAssigned
    if (needed) required.push(name)
  }
  return {
    type: 'object',
    title: type.name,
    ...(required.length === 0 ? {} : { required }),
    properties,
  }
}

function propertySchema(property: Property): JsonObject {
  const { array, default: preset } = property
  const one = elementSchema(property)
  if (array) return { type: 'array', items: one }
  return preset === null || '$ref' in one ? one : { ...one, default: preset }
}

function elementSchema({ primitive, type, relationship, regex, range }: Property): JsonObject {
  const bounds = {
    ...(range?.lower == null ? {} : { minimum: range.lower }),
    ...(range?.upper == null ? {} : { maximum: range.upper }),
  }
  switch (primitive) {
    case 'String':
      return regex === null || regex.flags !== ''
        ? primitiveSchema(primitive)
        : { ...primitiveSchema(primitive), pattern: regex.source }
    case 'Boolean':
    case 'DateTime':
      return primitiveSchema(primitive)
    case 'Double':
    case 'Integer':
    case 'Long':
      return { ...primitiveSchema(primitive), ...bounds }
    case null:
      if (type === null) return {}
      if (relationship) {
        const description = `A relationship: resource:${type.qualifiedName}#<id>, or the id alone`
        return { type: 'string', description, example: relationshipExample(type) }
      }
      return typeSchema(type)
  }
}

/** Returns the schema of a transaction's result. */
export function returnedSchema({ name, array, type }: Returned): JsonObject {
  const one = type === null ? primitiveSchema(name) : typeSchema(type)
  return array ? { type: 'array', items: one } : one
}

function typeSchema(type: TypeDeclaration): JsonObject {
  if (type.kind === 'enum') return { type: 'string', enum: [...type.values] }
  return referenceTo(type)
}

function primitiveSchema(name: string): JsonObject {
  switch (name) {
    case 'String':
      return { type: 'string' }
    case 'Boolean':
      return { type: 'boolean' }
    case 'DateTime':
      return { type: 'string', format: 'date-time' }
    case 'Double':
      return { type: 'number', format: 'double' }
    default:
      return { type: 'integer', format: 'int64' }
  }
}

/**
 * Returns an example of a request body: the required members of `type` except members assigned by the server. `left` is
 * the number of further members that the example may have.
 */
export function instanceExample(
  type: TypeDeclaration,
  model: Model,
  depth = 0,
  left = { members: EXAMPLE_MEMBERS_MAX },
): JsonObject {
  const example: JsonObject = { $class: type.qualifiedName }
  for (const [name, property] of type.properties) {
    const isAssigned = depth === 0 && type.kind === 'transaction' && ASSIGNED.includes(name)
    if (property.optional || isAssigned) continue
    left.members -= 1
    const one = elementExample(name, property, model, depth, left)
    example[name] = property.array ? (one === null ? [] : [one]) : one
  }
  return example
}

function elementExample(
  name: string,
  property: Property,
  model: Model,
  depth: number,
  left: { members: number },
): Json {
  const { primitive, type, relationship, range } = property
  if (property.default !== null) return property.default
  switch (primitive) {
    case 'String':
      return name === '' ? 'text' : `${name} 1`.replaceAll(' ', '-')
    case 'Boolean':
      return false
    case 'DateTime':
      return '2026-01-01T00:00:00.000Z'
    case 'Double':
    case 'Integer':
    case 'Long':
      return range?.lower ?? (range?.upper == null ? 1 : Math.min(1, range.upper))
    case null:
      if (type === null || depth > EXAMPLE_DEPTH || left.members < 0) return null
      if (relationship) return relationshipExample(type)
      if (type.kind === 'enum') return [...type.values][0] ?? null
      return instanceExample(findConcrete(type, model), model, depth + 1, left)
  }
}

function relationshipExample({ qualifiedName, identifier }: TypeDeclaration): string {
  return `resource:${qualifiedName}#${identifier ?? 'id'}-1`
}

/** Returns `type` or, if `type` is abstract, the first concrete type that extends it. */
function findConcrete(type: TypeDeclaration, model: Model): TypeDeclaration {
  if (!type.abstract) return type
  for (const each of model.types()) {
    if (each.abstract) continue
    for (let at = each.superType; at !== null; at = at.superType) if (at === type) return each
  }
  return type
}

/** Returns the types to document: the types of the model, system types with paths, and types selected by queries. */
export function documentedTypes(
  model: Model,
  selected: readonly TypeDeclaration[] = [],
): TypeDeclaration[] {
  const needed = new Set<TypeDeclaration>()
  const add = (type: TypeDeclaration): void => {
    if (type.kind === 'enum' || needed.has(type)) return
    needed.add(type)
    for (const { type: inner, relationship } of type.properties.values()) {
      if (inner !== null && !relationship) add(inner)
    }
  }
  for (const type of model.types()) {
    const isListed = ['HistorianRecord', 'Identity'].includes(type.name)
    if (type.namespace !== SYSTEM_NAMESPACE || isListed) add(type)
  }
  for (const type of selected) add(type)
  return [...needed]
}

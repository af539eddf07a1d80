import { FIELD_TYPES, type FieldType, type TypeOf } from '../../filter/index.ts'
import { instantOf } from '../model/instant.ts'
import type { Model, Property, TypeDeclaration } from '../model/model.ts'
import { propertyAt } from '../model/paths.ts'
import { canonical } from '../queries/parameter.ts'

/** What filters over instances of `type` may ask, and of which types. */
export function fieldTypesOf(model: Model, type: TypeDeclaration): TypeOf {
  return (path) => {
    if (path.at(-1) === '$class') return FIELD_TYPES.text
    const property = propertyAt(model, type, path)
    return property === null ? undefined : fieldTypeOf(property, model)
  }
}

function fieldTypeOf(property: Property, model: Model): FieldType {
  const { type, relationship } = property
  switch (property.primitive) {
    case 'String':
      return FIELD_TYPES.text
    case 'Boolean':
      return FIELD_TYPES.boolean
    case 'Double':
      return FIELD_TYPES.number
    case 'Integer':
    case 'Long':
      // With lenient numbers such a field may hold 1.5, and one may look for it.
      return FIELD_TYPES.number
    case 'DateTime':
      return { ...FIELD_TYPES.dateTime, read: (given) => instantIn(given) }
    case null:
      if (relationship) return relationshipType(property, model)
      if (type?.kind !== 'enum') return FIELD_TYPES.compound
      return {
        kind: 'text',
        expected: `a value of ${type.name}`,
        read: (given) => (typeof given === 'string' && type.values.has(given) ? given : undefined),
      }
  }
}

function instantIn(given: unknown): string | undefined {
  return typeof given === 'string' ? (instantOf(given) ?? undefined) : undefined
}

/** Compared as it is kept; patterns are left as they are, and look into the kept text. */
function relationshipType(property: Property, model: Model): FieldType {
  return {
    kind: 'text',
    expected: `a relationship to ${property.type?.name}`,
    read: (given) => (typeof given === 'string' ? canonical(given, property, model) : undefined),
  }
}

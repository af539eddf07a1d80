import { numberIn } from '../../filter/index.ts'
import { instantOf } from '../model/instant.ts'
import type { Model, Property } from '../model/model.ts'
import { relationshipText, targetOf } from '../model/relationship.ts'

/** A value that properties are compared with. */
export type QueryValue = string | number | boolean | null

/** What a parameter of a query must be: a value of the property it is compared with, or a count. */
export type ParameterType = Property | 'count'

/** The name of a parameter's type, for people. */
export function parameterTypeText(type: ParameterType): string {
  if (type === 'count') return 'Integer'
  return type.relationship ? `relationship to ${type.type?.name}` : (type.primitive ?? 'String')
}

/** The value that the text `given` of a request stands for, or undefined when it stands for none. */
export function parameterValue(
  given: string,
  type: ParameterType,
  model: Model,
): QueryValue | undefined {
  if (type === 'count') return /^\d{1,15}$/.test(given) ? Number(given) : undefined
  switch (type.primitive) {
    case 'String':
      return given
    case 'Boolean':
      return given === 'true' || given === 'false' ? given === 'true' : undefined
    case 'DateTime':
      return instantOf(given) ?? undefined
    case 'Double':
      return numberIn(given)
    case 'Integer':
    case 'Long': {
      const value = numberIn(given)
      return Number.isSafeInteger(value) ? value : undefined
    }
    case null:
      return canonical(given, type, model)
  }
}

/** The form in which a text is kept in a property: relationships and moments have one of their own. */
export function canonical(text: string, property: Property, model: Model): string | undefined {
  if (property.primitive === 'DateTime') return instantOf(text) ?? undefined
  const { type, relationship } = property
  if (type === null || !relationship) return text
  const target = targetOf(text, type, model)
  return typeof target === 'string' ? undefined : relationshipText(target)
}

import { isA, type Model, type Property, type TypeDeclaration } from './model.ts'

/**
 * The property that `path` leads to from an instance of `type`, through concepts and nested
 * resources; null when it leads to none. Where a member may hold one of several types, a property of
 * any of them counts. Nothing lies behind a relationship: it is a text.
 */
export function propertyAt(
  model: Model,
  type: TypeDeclaration,
  path: readonly string[],
): Property | null {
  let holders: readonly TypeDeclaration[] = [type]
  let found: Property | null = null
  for (const step of path) {
    const property = holders.flatMap((holder) => holder.properties.get(step) ?? [])[0] ?? null
    if (property === null) return null
    found = property
    holders = property.type === null || property.relationship ? [] : subtypes(model, property.type)
  }
  return found
}

function subtypes(model: Model, type: TypeDeclaration): TypeDeclaration[] {
  return [...model.types()].filter((each) => isA(each, type))
}

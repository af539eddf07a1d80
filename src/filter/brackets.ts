import type { JsonObject } from '../base/json.ts'
import { FilterError } from './errors.ts'
import { FILTER_LIMITS } from './filter.ts'

/** How deep brackets go: `filter[where]`, `and` and `or` with their indexes, a field, an operator, an index. */
const BRACKETS_MAX = 2 * FILTER_LIMITS.depth + 5

/**
 * The tree that the parameters `filter[…]` of a query spell, all leaves texts. Lists are objects with
 * the indexes as names; a parameter given twice, or with `[]` at its end, gives a JSON array.
 * Errors: FILTER_MALFORMED, FILTER_TOO_LARGE.
 */
export function treeOf(parameters: readonly (readonly [string, string])[]): JsonObject {
  const root = emptyNode()
  let characters = 0
  for (const [name, text] of parameters) {
    characters += name.length + text.length
    if (characters > FILTER_LIMITS.characters) {
      throw new FilterError(
        'FILTER_TOO_LARGE',
        [],
        `it has more than ${FILTER_LIMITS.characters} characters`,
      )
    }
    insert(root, partsOf(name), text)
  }
  return root
}

/** `filter[where][a]` is `['where', 'a']`. */
function partsOf(name: string): string[] {
  const inner = name.slice('filter'.length)
  if (!/^(\[[^[\]]*\])+$/.test(inner)) {
    throw new FilterError(
      'FILTER_MALFORMED',
      [],
      `the brackets of ${name.slice(0, 64)} do not match`,
    )
  }
  const parts = inner.slice(1, -1).split('][')
  if (parts.length > BRACKETS_MAX) {
    throw new FilterError(
      'FILTER_TOO_LARGE',
      parts.slice(0, 4),
      `more than ${BRACKETS_MAX} brackets`,
    )
  }
  if (parts.length > 1 && parts.at(-1) === '') parts.pop()
  return parts
}

function insert(root: JsonObject, parts: readonly string[], text: string): void {
  let node = root
  for (const [at, part] of parts.entries()) {
    if (part === '') throw new FilterError('FILTER_MALFORMED', parts, 'a pair of brackets is empty')
    const child = node[part]
    if (at === parts.length - 1) {
      if (child === undefined) node[part] = text
      else if (typeof child === 'string') node[part] = [child, text]
      else if (Array.isArray(child)) child.push(text)
      else throw contradiction(parts)
      return
    }
    if (child !== undefined && (typeof child !== 'object' || Array.isArray(child))) {
      throw contradiction(parts)
    }
    const next = child ?? emptyNode()
    node[part] = next
    node = next
  }
}

function contradiction(parts: readonly string[]): FilterError {
  return new FilterError('FILTER_MALFORMED', parts, 'it is given a value, and members as well')
}

/** Without a prototype: a member called `__proto__` is one like any other. */
function emptyNode(): JsonObject {
  return Object.create(null)
}

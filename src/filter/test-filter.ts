import { type Filter, FilterError } from './filter.ts'
import { type FilterOptions, filterOf } from './read-filter.ts'

// How tests of filters write what clients send.

/** The filter that a client gives as JSON. */
export function json(filter: unknown, options?: FilterOptions): Filter | null {
  return filterOf({ filter: JSON.stringify(filter) }, options)
}

/** The filter that a client gives as a query with brackets. */
export function brackets(query: string, options?: FilterOptions): Filter | null {
  const parameters: Record<string, string | string[]> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    parameters[name] = name in parameters ? [parameters[name] ?? '', value].flat() : value
  }
  return filterOf(parameters, options)
}

/** Code and pointer of the refusal of what `read` reads; `taken` where it is taken. */
export function refusal(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    if (error instanceof FilterError) return `${error.code} ${error.pointer}`
    throw error
  }
  return 'taken'
}

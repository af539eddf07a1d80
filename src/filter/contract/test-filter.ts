import { type Filter, FilterError } from '../filter.ts'
import { type FilterOptions, parseFilter } from '../read-filter.ts'

// Test helpers: filters as clients send them.

/** Reads a filter in JSON form. */
export function json(filter: unknown, options?: FilterOptions): Filter | null {
  return parseFilter({ filter: JSON.stringify(filter) }, options)
}

/** Reads a filter in bracket form. */
export function brackets(query: string, options?: FilterOptions): Filter | null {
  const parameters: Record<string, string | string[]> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    parameters[name] = name in parameters ? [parameters[name] ?? '', value].flat() : value
  }
  return parseFilter(parameters, options)
}

/** Returns the code and pointer of the error that `read` throws, or `taken`. */
export function refusal(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    if (error instanceof FilterError) return `${error.code} ${error.pointer}`
    throw error
  }
  return 'taken'
}

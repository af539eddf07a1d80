import { createContext, Script } from 'node:vm'

/** How long one text may be compared with the regular expression of a model, milliseconds. */
const COMPARISON_MS = 100
/** Texts that are compared at once are no longer, UTF-16 units. */
const SHORT_LENGTH = 256

/** What the script below looks at; kept between comparisons, because making one takes a while. */
const compared = createContext({})
const COMPARISON = new Script('pattern.test(text)')

/**
 * Whether `pattern`, which a model declares, is found in `text`, which anybody may send; null when that
 * takes too long to say. Some patterns take years for some texts, and this thread is everybody's.
 */
export function matchesPattern(pattern: RegExp, text: string): boolean | null {
  if (isQuick(pattern.source) && text.length <= SHORT_LENGTH) return pattern.test(text)
  Object.assign(compared, { pattern, text })
  try {
    // The engine looks at the time while it goes back in a text, too.
    return COMPARISON.runInContext(compared, { timeout: COMPARISON_MS }) === true
  } catch {
    return null
  }
}

/** Whether `source` repeats little and never a group: then there are not many ways to go through a text. */
function isQuick(source: string): boolean {
  return !/\)[*+?{]/.test(source) && (source.match(/[*+?{]/g)?.length ?? 0) <= 2
}

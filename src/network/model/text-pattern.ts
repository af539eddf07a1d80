import { createContext, Script } from 'node:vm'

/** How long one text may be compared with the regular expression of a model, milliseconds. */
const COMPARISON_MS = 100
/** Comparisons that ran out of time while the process hardly had the processor are repeated. */
const ATTEMPTS_MAX = 5
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
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const before = process.cpuUsage()
    try {
      // The engine looks at the time while it goes back in a text, too.
      return COMPARISON.runInContext(compared, { timeout: COMPARISON_MS }) === true
    } catch {
      const { user, system } = process.cpuUsage(before)
      if (user + system > (COMPARISON_MS * 1_000) / 2) return null
    }
  }
  return null
}

/** Whether `source` repeats little and never a group: then there are not many ways to go through a text. */
function isQuick(source: string): boolean {
  return !/\)[*+?{]/.test(source) && (source.match(/[*+?{]/g)?.length ?? 0) <= 2
}

/** The callers of `turn`. Not passed as an argument, because all code of a thread shares one event loop. */
const waiting: (() => void)[] = []

/**
 * Resolves in a later event-loop iteration, for one caller per iteration, in the order of the calls. So the long work
 * of many requests, done piece by piece, delays other requests by one piece and not by a piece of each.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(grant)
  })
}

function grant(): void {
  const next = waiting.shift()
  if (waiting.length > 0) setImmediate(grant)
  next?.()
}

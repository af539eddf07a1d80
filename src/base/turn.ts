/** The callers of `turn`. Not passed as an argument, because all code of a thread shares one event loop. */
const [beginning, continuing]: [(() => void)[], (() => void)[]] = [[], []]
let wasBeginning = false

/**
 * Resolves in a later event-loop iteration, for one caller per iteration, in the order of the calls. So the long work
 * of many requests, done piece by piece, delays other requests by one piece and not by a piece of each. With
 * `isBeginning`, for the first piece of a request, the caller takes every second iteration, so that a short request does
 * not wait for a piece of each long one.
 */
export function turn(isBeginning = false): Promise<void> {
  return new Promise((resolve) => {
    const isIdle = beginning.length + continuing.length === 0
    ;(isBeginning ? beginning : continuing).push(resolve)
    if (isIdle) setImmediate(grant)
  })
}

function grant(): void {
  wasBeginning = (!wasBeginning || continuing.length === 0) && beginning.length > 0
  const next = (wasBeginning ? beginning : continuing).shift()
  if (beginning.length + continuing.length > 0) setImmediate(grant)
  next?.()
}

/** Milliseconds from which on a piece of work is long. */
const LONG_MS = 4
/** Event-loop iterations after a long piece that nobody gets: Node accepts one connection per iteration. */
const ITERATIONS_AFTER_LONG = 8

/** The callers of `turn`. Not passed as an argument, because all code of a thread shares one event loop. */
const [beginning, continuing]: [(() => void)[], (() => void)[]] = [[], []]
/** Whether a caller has this event-loop iteration. */
let isTaken = false
let wasBeginning = false
/** Start of the last piece; infinite once its duration is known. */
let startedMs = Number.POSITIVE_INFINITY
let pause = 0

/**
 * Resolves in a later event-loop iteration, for one caller per iteration, in the order of the calls. So the long work
 * of many requests, done piece by piece, delays other requests by one piece and not by a piece of each. With
 * `isBeginning`, for the first piece of a request, the caller takes every second iteration, so that a short request does
 * not wait for a piece of each long one, or resolves at once if nobody else has this iteration. After a long piece,
 * nobody has the next iterations.
 */
export function turn(isBeginning = false): Promise<void> {
  const isFree = !isTaken
  if (isFree) setImmediate(grant)
  isTaken = true
  if (isFree && isBeginning) return Promise.resolve()
  return new Promise((resolve) => {
    ;(isBeginning ? beginning : continuing).push(resolve)
  })
}

function grant(): void {
  if (performance.now() - startedMs > LONG_MS) pause = ITERATIONS_AFTER_LONG
  startedMs = Number.POSITIVE_INFINITY
  if (pause > 0) {
    pause -= 1
    setImmediate(grant)
    return
  }
  wasBeginning = (!wasBeginning || continuing.length === 0) && beginning.length > 0
  const next = (wasBeginning ? beginning : continuing).shift()
  isTaken = next !== undefined
  if (next === undefined) return
  setImmediate(grant)
  startedMs = performance.now()
  next()
}

/** Milliseconds from which on a piece of work is long. */
const LONG_MS = 4
/** Event-loop iterations after a long piece that nobody gets: Node accepts one connection per iteration. */
const ITERATIONS_AFTER_LONG = 8

interface Caller {
  readonly kind: string
  readonly resolve: () => void
}

/** The callers of `turn`. Not passed as an argument, because all code of a thread shares one event loop. */
const [beginning, continuing]: [Caller[], Caller[]] = [[], []]
/** Mean processor time of the last first pieces of each kind, milliseconds. A pause of the system is no work. */
const meanMs = new Map<string, number>()
/** Weight of the last piece in the mean. */
const LAST_WEIGHT = 0.25
/** The kind of the last piece, empty if it has none, and the processor time at its start. */
let lastKind = ''
let startedCpuMs = 0
/** Whether a caller has this event-loop iteration. */
let isTaken = false
let wasBeginning = false
/** Start of the last piece; infinite once its duration is known. */
let startedMs = Number.POSITIVE_INFINITY
let pause = 0

/**
 * Resolves in a later event-loop iteration, for one caller per iteration, in the order of the calls. So the long work
 * of many requests, done piece by piece, delays other requests by one piece and not by a piece of each. With
 * `beginning`, for the first piece of a request, the caller takes every second iteration, so that a short request does
 * not wait for a piece of each long one, or resolves at once if nobody else has this iteration. A request of a kind whose
 * first pieces are long is no beginning. After a long piece, nobody has the next iterations.
 */
export function turn(first: boolean | string = false): Promise<void> {
  const kind = typeof first === 'string' ? first : ''
  const isBeginning = first !== false && !isLongKind(kind)
  const isFree = !isTaken
  if (isFree) setImmediate(grant)
  isTaken = true
  if (isFree && isBeginning) {
    if (kind !== '') start(kind)
    return Promise.resolve()
  }
  return new Promise((resolve) => {
    ;(isBeginning ? beginning : continuing).push({ kind, resolve })
  })
}

function isLongKind(kind: string): boolean {
  return (meanMs.get(kind) ?? 0) > LONG_MS
}

function processorMs(): number {
  // Node 22 measures only the whole process.
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage()
  return (user + system) / 1_000
}

function start(kind: string): void {
  lastKind = kind
  if (kind !== '') startedCpuMs = processorMs()
  startedMs = performance.now()
}

function grant(): void {
  const isLong = performance.now() - startedMs > LONG_MS
  if (isLong) pause = ITERATIONS_AFTER_LONG
  if (lastKind !== '') {
    const before = meanMs.get(lastKind) ?? 0
    meanMs.set(lastKind, before + (processorMs() - startedCpuMs - before) * LAST_WEIGHT)
    lastKind = ''
  }
  startedMs = Number.POSITIVE_INFINITY
  if (pause > 0) {
    pause -= 1
    setImmediate(grant)
    return
  }
  // They came before their kind was known to be long.
  while (isLongKind(beginning[0]?.kind ?? '')) continuing.push(...beginning.splice(0, 1))
  wasBeginning = (!wasBeginning || continuing.length === 0) && beginning.length > 0
  const next = (wasBeginning ? beginning : continuing).shift()
  isTaken = next !== undefined
  if (next === undefined) return
  setImmediate(grant)
  start(next.kind)
  next.resolve()
}

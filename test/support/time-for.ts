/**
 * Returns a function that decides before each run of a property whether to continue. It continues before the
 * first run, and then until `ms` milliseconds have passed. Further runs are skipped. A time limit of the test
 * runner would instead fail if a busy computer does not complete the first run in time.
 */
export function timeFor(ms: number): () => boolean {
  const endMs = performance.now() + ms
  let isFirst = true
  return () => {
    const goesOn = isFirst || performance.now() < endMs
    isFirst = false
    return goesOn
  }
}

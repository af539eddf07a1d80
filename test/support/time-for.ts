/**
 * Returns a function that decides before each run of a property whether to continue: always for the first run, then
 * until `ms` have passed. Remaining runs are skipped; a time limit of the test runner would fail if a busy
 * machine does not complete the first run.
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

/**
 * Says before each run of a property whether it goes on: the first time always, then until `ms` have
 * passed. What is left is skipped; a limit of the runner would fail where a busy machine does not get
 * through the first run.
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

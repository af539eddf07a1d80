/** A signal within this of the first one is the same wish: `timeout`, npm and terminals tell a program and its group. */
const ECHO_MS = 500

/**
 * What a signal to stop means that comes `sinceFirstMs` milliseconds after the first one; null when it is
 * the first. The one who waits may ask again, to have it end at once.
 */
export function stopSignalMeans(sinceFirstMs: number | null): 'close' | 'nothing' | 'end at once' {
  if (sinceFirstMs === null) return 'close'
  return sinceFirstMs <= ECHO_MS ? 'nothing' : 'end at once'
}

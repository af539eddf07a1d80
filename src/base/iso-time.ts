/** Formats a time in ISO 8601, or as a number if it is beyond the last date of ECMAScript, as a chain may contain it. */
export function isoTime(timestampMs: number): string {
  const date = new Date(timestampMs)
  return Number.isNaN(date.getTime()) ? `${timestampMs} ms after 1970` : date.toISOString()
}

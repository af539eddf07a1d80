/** Formats a time in ISO 8601, or as a number if it is beyond the last date of ECMAScript, as a chain may contain it. */
export function isoTime(timestampMs: number): string {
  const date = new Date(timestampMs)
  return Number.isNaN(date.getTime()) ? `${timestampMs} ms after 1970` : date.toISOString()
}

const TIME =
  /^(\d{4}-\d\d-\d\d)(?:T(?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/

/** Parses a day (UTC) or a time with its zone to milliseconds since 1970, or returns null. Source: RFC 3339. */
export function parseIsoTime(text: string): number | null {
  // A plus sign that is not encoded in a URL arrives as a space.
  const written = text.toUpperCase().replace(' ', '+')
  const [, day = ''] = TIME.exec(written) ?? []
  const midnight = new Date(`${day}T00:00:00Z`)
  // `Date` takes 30 February for a day in March.
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(day)) return null
  const timeMs = Date.parse(written)
  return Number.isNaN(timeMs) ? null : timeMs
}

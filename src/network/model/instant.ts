const ISO =
  /^([+-]\d{6}|\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?$/i

/** The form of the result, for the years that have four digits. */
const KEPT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The last text that was found to be in that form: a transaction and its events have the same moment. */
let lastKept: string | null = null

/**
 * The moment that an ISO 8601 text names, as `2026-11-20T12:00:00.000Z`; null when it names none.
 * Without a zone it is UTC; a date alone is its midnight. What the calendar does not have (30
 * February) names none.
 */
export function instantOf(text: string): string | null {
  // What is kept already, and what most programs send, stands in that form.
  if (text === lastKept) return text
  if (KEPT.test(text) && isSame(text)) {
    lastKept = text
    return text
  }
  const match = ISO.exec(text)
  if (match === null) return null
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = '', zone] = match
  const local = new Date(
    `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}Z`,
  )
  // Beyond the end of a month a Date rolls over: what does not come back was no date.
  if (Number.isNaN(local.getTime()) || local.getUTCDate() !== Number(day)) return null
  const offset = offsetMs(zone)
  const instant = offset === null ? null : new Date(local.getTime() - offset)
  return instant === null || Number.isNaN(instant.getTime()) ? null : instant.toISOString()
}

/** Whether the calendar has what `text` names: what does not come back was no date. */
function isSame(text: string): boolean {
  const instant = new Date(text)
  return !Number.isNaN(instant.getTime()) && instant.toISOString() === text
}

function offsetMs(zone: string | undefined): number | null {
  if (zone === undefined || /^z$/i.test(zone)) return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(-2))
  if (hours > 23 || minutes > 59) return null
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000
}

import { randomFillSync } from 'node:crypto'

/** Random digits taken at a time: making hexadecimal of many bytes at once costs far less. */
const POOL_BYTES = 4_096
/** Digits of one UUIDv7 after its counter, but for the variant's. */
const RANDOM_DIGITS = 15

const bytes = Buffer.allocUnsafe(POOL_BYTES)
let pool = ''
let used = 0
let lastMs = 0
/** The time as UUIDs show it, up to the counter. */
let prefix = ''
let sequence = 0

/**
 * A fresh UUIDv7 for the moment `nowMs` (milliseconds since the Unix epoch), lower case.
 *
 * Ids of one process sort as they were made, also within a millisecond and when the clock steps
 * back: the 12 bits after the version are a counter (RFC 9562 section 6.2, method 1), seeded at
 * random each millisecond and carried into the next one when it runs over.
 */
export function uuidV7(nowMs: number): string {
  const digits = randomDigits()
  if (nowMs > lastMs) {
    start(nowMs)
    sequence = Number.parseInt(digits.slice(0, 3), 16) & 0x7ff
  } else {
    sequence += 1
    if (sequence > 0xfff) start(lastMs + 1)
  }
  const variant = '89ab'[digits.charCodeAt(0) & 3]
  const counter = (0x7000 | sequence).toString(16)
  return `${prefix}-${counter}-${variant}${digits.slice(0, 3)}-${digits.slice(3)}`
}

function start(ms: number): void {
  lastMs = ms
  sequence = 0
  const time = ms.toString(16).padStart(12, '0')
  prefix = `${time.slice(0, 8)}-${time.slice(8)}`
}

function randomDigits(): string {
  if (used + RANDOM_DIGITS > pool.length) {
    pool = randomFillSync(bytes).toString('hex')
    used = 0
  }
  used += RANDOM_DIGITS
  return pool.slice(used - RANDOM_DIGITS, used)
}

import { randomFillSync } from 'node:crypto'

/** Random bytes of one UUIDv7, after the 48 bits of time. */
const RANDOM_BYTES = 10
const POOL_BYTES = RANDOM_BYTES * 256

const pool = Buffer.allocUnsafe(POOL_BYTES)
let used = POOL_BYTES
let lastMs = 0
let sequence = 0

/**
 * A fresh UUIDv7 for the moment `nowMs` (milliseconds since the Unix epoch), lower case.
 *
 * Ids of one process sort as they were made, also within a millisecond and when the clock steps
 * back: the 12 bits after the version are a counter (RFC 9562 section 6.2, method 1), seeded at
 * random each millisecond and carried into the next one when it runs over.
 */
export function uuidV7(nowMs: number): string {
  if (used >= POOL_BYTES) {
    randomFillSync(pool)
    used = 0
  }
  if (nowMs > lastMs) {
    lastMs = nowMs
    sequence = pool.readUInt16BE(used) & 0x7ff
  } else {
    sequence += 1
    if (sequence > 0xfff) {
      lastMs += 1
      sequence = 0
    }
  }
  const time = lastMs.toString(16).padStart(12, '0')
  const counter = (0x7000 | sequence).toString(16)
  pool[used + 2] = ((pool[used + 2] ?? 0) & 0x3f) | 0x80
  const tail = pool.toString('hex', used + 2, used + RANDOM_BYTES)
  used += RANDOM_BYTES
  return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${tail.slice(0, 4)}-${tail.slice(4)}`
}

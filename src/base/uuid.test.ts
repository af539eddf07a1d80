import { expect, it } from 'vitest'
import { UuidGenerator } from './uuid.ts'

it('creates UUIDs of version 7 that contain the time and sort in the order of the calls', () => {
  const start = 1_800_000_000_000
  // Ten thousand calls in one millisecond overflow the counter; then the clock goes back.
  const times = [...Array.from({ length: 10_000 }, () => start), start - 5_000, start + 10]
  const uuids = new UuidGenerator()
  const ids = times.map((nowMs) => uuids.next(nowMs))
  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  }
  expect(ids).toEqual([...ids].sort())
  expect(new Set(ids).size).toBe(ids.length)
  expect(Number.parseInt(ids[0]?.replace('-', '').slice(0, 12) ?? '', 16)).toBe(start)
})

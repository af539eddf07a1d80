import { expect, it, vi } from 'vitest'

it('makes UUIDs of version 7 that carry the time and sort as they were made', async () => {
  // Of its own: another test may have made some that are later.
  vi.resetModules()
  const { uuidV7 } = await import('./uuid.ts')
  const start = 1_800_000_000_000
  // Ten thousand in one millisecond run the counter over; then the clock steps back.
  const times = [...Array.from({ length: 10_000 }, () => start), start - 5_000, start + 10]
  const ids = times.map(uuidV7)
  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  }
  expect(ids).toEqual([...ids].sort())
  expect(new Set(ids).size).toBe(ids.length)
  expect(Number.parseInt(ids[0]?.replace('-', '').slice(0, 12) ?? '', 16)).toBe(start)
})

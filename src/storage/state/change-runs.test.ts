import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { ChangeRuns, type KeyedChange } from './change-runs.ts'

it('returns all changes by ranges of keys, those of a key in the order in which they were added', () => {
  const changes = Array.from({ length: 1_000 }, (_, n): KeyedChange => {
    const key = hash('sha256', `${n % 300}`)
    return { map: n % 7, key, position: 2 ** 52 + n, kind: n % 4 }
  })
  const runs = new ChangeRuns(64)
  for (const change of changes) runs.add(change)
  const received: KeyedChange[] = []
  let before = ''
  runs.end((iterable) => {
    const some = [...iterable]
    if (some.length === 0) return
    const [range = '', ...others] = new Set(some.map(({ key }) => key.slice(0, 2)))
    expect(others).toEqual([])
    expect(range > before).toBe(true)
    before = range
    received.push(...some)
  })
  runs.close()
  const sorted = changes.toSorted((one, other) =>
    one.key.slice(0, 2) < other.key.slice(0, 2)
      ? -1
      : one.key.slice(0, 2) > other.key.slice(0, 2)
        ? 1
        : 0,
  )
  expect(received).toEqual(sorted)
})

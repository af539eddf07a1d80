import { expect, it } from 'vitest'
import { CommitTally } from './commit-tally.ts'

/** The bounds of a figure, as they are told, and how many blocks are within the first of them. */
function boundsOf(text: string, name: string): [string, number][] {
  const lines = text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} (\\d+)$`, 'gm'))
  return [...lines].map(([, bound = '', count]) => [bound, Number(count)])
}

it('blocks are counted by time, entries and bytes, in bounds that ascend', () => {
  const tally = new CommitTally()
  const block = { height: 0, id: 'x' }
  tally.count({ ...block, ms: 2.5, entries: 1, bytes: 256 })
  tally.count({ ...block, ms: 7_000, entries: 1_025, bytes: 257 })
  const text = tally.text()
  const counts = ['seconds', 'entries', 'bytes'].map((figure) => {
    const bounds = boundsOf(text, `daicho_commit_${figure}`)
    const numbers = bounds.map(([bound]) => (bound === '+Inf' ? Number.POSITIVE_INFINITY : +bound))
    expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
    return Object.fromEntries(bounds)
  })
  expect(counts).toMatchObject([
    { 0.001: 0, 0.0025: 1, 5: 1, '+Inf': 2 },
    { 1: 1, 1024: 1, 10000: 2, '+Inf': 2 },
    { 256: 1, 1024: 2, '+Inf': 2 },
  ])
  expect(text).toContain('\ndaicho_commit_seconds_sum 7.0025\ndaicho_commit_seconds_count 2\n')
  expect(text).toContain('\ndaicho_commit_bytes_sum 513\ndaicho_commit_bytes_count 2\n')
})

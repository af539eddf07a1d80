import { expect, it } from 'vitest'
import { ProgressLine, shareDone } from './output.ts'

/** Returns a progress line with its clock, and `shown`, the texts that the line has written. */
function shownOn(isTTY: boolean) {
  const shown: string[] = []
  const write = (text: string | Uint8Array) => {
    shown.push(String(text))
    return true
  }
  const clock = { ms: 5, now: () => clock.ms }
  return { shown, clock, line: new ProgressLine('verifying', { isTTY, write }, clock) }
}

it('writes one line for each 10 % of progress when the output is a file', () => {
  const { shown, line } = shownOn(false)
  for (const share of [0, 0.05, 0.1, 0.19, 0.55, 0.59, 1, 1]) line.update(share, 'so far')
  line.end()
  expect(shown).toEqual([
    'verifying   0 %  so far\n',
    'verifying  10 %  so far\n',
    'verifying  55 %  so far\n',
    'verifying 100 %  so far\n',
  ])
})

it('draws a bar on a terminal, at most ten times a second, and clears it at the end', () => {
  const { shown, clock, line } = shownOn(true)
  const bar = (filled: number) => '█'.repeat(filled) + '░'.repeat(24 - filled)
  const updates = [
    [1_000, 0, 'a'],
    [1_099, 0.25, 'b'],
    [1_100, 0.5, 'c'],
    [1_101, 1, 'd'],
  ] as const
  for (const [ms, share, detail] of updates) {
    clock.ms = ms
    line.update(share, detail)
  }
  line.end()
  expect(shown).toEqual([
    `\rverifying ${bar(0)}   0 %  a\u001b[K`,
    `\rverifying ${bar(12)}  50 %  c\u001b[K`,
    `\rverifying ${bar(24)} 100 %  d\u001b[K`,
    '\r\u001b[K',
  ])
})

it('with an unknown total, writes the detail every ten seconds when the output is a file', () => {
  const { shown, clock, line } = shownOn(false)
  for (const ms of [1_000, 10_999, 11_000, 20_999, 21_000]) {
    clock.ms = ms
    line.update(null, `at ${ms}`)
  }
  line.end()
  expect(shown).toEqual(['verifying  at 11000\n', 'verifying  at 21000\n'])
})

it('with an unknown total, shows the detail on a terminal at most ten times a second, and clears it at the end', () => {
  const { shown, clock, line } = shownOn(true)
  for (const ms of [1_000, 1_099, 1_100]) {
    clock.ms = ms
    line.update(null, `at ${ms}`)
  }
  line.end()
  expect(shown).toEqual([
    '\rverifying  at 1000\u001b[K',
    '\rverifying  at 1100\u001b[K',
    '\r\u001b[K',
  ])
})

it('does not clear a progress bar that was never drawn', () => {
  const { shown, line } = shownOn(true)
  line.end()
  expect(shown).toEqual([])
})

it('never reports more than 100 % of a chain', () => {
  expect(shareDone({ blocks: 0, ofBlocks: 0 })).toBe(1)
  expect(shareDone({ blocks: 1, ofBlocks: 4 })).toBe(0.25)
  expect(shareDone({ blocks: 5, ofBlocks: 4 })).toBe(1)
})

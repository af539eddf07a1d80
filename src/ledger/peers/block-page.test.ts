import { expect, it } from 'vitest'
import { PageBudget } from './block-page.ts'

const MIB = 1024 * 1024

it('aborts the oldest large page when all pages together take too much memory, and never a small one', () => {
  const budget = new PageBudget(20 * MIB)
  const [small, oldest, newest] = [budget.open(), budget.open(), budget.open()]
  small.grow(4 * MIB)
  oldest.grow(8 * MIB)
  newest.grow(8 * MIB)
  expect([small, oldest, newest].map(({ signal }) => signal.aborted)).toEqual([false, false, false])
  newest.grow(1)
  expect([small, oldest, newest].map(({ signal }) => signal.aborted)).toEqual([false, true, false])
  expect(oldest.signal.reason).toMatchObject({
    code: 'TIMEOUT',
    message: 'the page took longer than those of other nodes',
  })
  // The aborted page no longer counts.
  newest.grow(8 * MIB - 1)
  expect(newest.signal.aborted).toBe(false)
  newest.close()
  budget.open().grow(16 * MIB)
  expect(newest.signal.aborted).toBe(false)
})

it('aborts a page with the synchronization to which it belongs', () => {
  const parent = new AbortController()
  const page = new PageBudget().open(parent.signal)
  parent.abort('closing')
  expect([page.signal.aborted, page.signal.reason]).toEqual([true, 'closing'])
  expect(new PageBudget().open(parent.signal).signal.reason).toBe('closing')
})

import { expect, it } from 'vitest'
import { guarded } from './guards.ts'

it('refuses a pooler, also before a server that has a lock_timeout of its own', () => {
  const row = [180_000, false, 'UTF8', 'on', 'on', 'on', '', 0]
  expect(guarded([...row, '2s'], true)).toEqual({ warning: null })
  for (const lockTimeout of ['0', '5s']) {
    expect(() => guarded([...row, lockTimeout], true)).toThrow('PgBouncer')
  }
})

import { expect, it } from 'vitest'
import { addressOf } from './throttle.ts'

it('a client whose connection is gone has an address, too: one for all of them', () => {
  // What Fastify gives as `ip` of a socket that was reset.
  const gone = {} as unknown as Parameters<typeof addressOf>[0]
  expect([addressOf({ ip: '10.0.0.1' }), addressOf(gone)]).toEqual(['10.0.0.1', ''])
})

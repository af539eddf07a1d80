import { expect, it } from 'vitest'
import { addressOf } from './throttle.ts'

it('uses an empty address for a client whose connection was reset', () => {
  // Fastify's `ip` is undefined for a socket that was reset.
  const disconnected = {} as unknown as Parameters<typeof addressOf>[0]
  expect([addressOf({ ip: '10.0.0.1' }), addressOf(disconnected)]).toEqual(['10.0.0.1', ''])
})

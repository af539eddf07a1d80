import { expect, it } from 'vitest'
import { readAddress } from './throttle.ts'

it('uses an empty address for a client whose connection was reset', () => {
  // Fastify's `ip` is undefined for a socket that was reset.
  const disconnected = {} as unknown as Parameters<typeof readAddress>[0]
  expect([readAddress({ ip: '10.0.0.1' }), readAddress(disconnected)]).toEqual(['10.0.0.1', ''])
})

import { expect, it } from 'vitest'
import { HandClock } from '../../test/support/ledger-node.ts'
import { openTokens } from '../tokens/index.ts'
import { SampleService } from './service.ts'
import { openUserDirectory, PRESET_USER } from './users.ts'

async function started() {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const users = await openUserDirectory({ file: null, folder: null, isLoopback: true })
  const service = new SampleService({ monotonic: clock, tokens, users })
  /** Sends malformed logins, which count as failures of `address` without the cost of a password check. */
  const fail = async (address: string, times = 1) => {
    for (let count = 0; count < times; count += 1) await service.login(null, null, address)
  }
  const outcome = async (address: string) =>
    (await service.login(PRESET_USER.name, PRESET_USER.password, address)).outcome
  return { clock, service, tokens, fail, outcome }
}

it.each([
  ['192.0.2.1', '192.0.2.1', true],
  ['192.0.2.1', '192.0.2.2', false],
  ['::ffff:192.0.2.1', '192.0.2.1', true],
  ['::FFFF:192.0.2.1', '192.0.2.1', true],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2', false],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:ffff::', true],
  ['2001:db8:1:2::', '2001:DB8:1:2::9', true],
  ['2001:db8:1:2::', '2001:db8:1:3::', false],
  ['2001:db8::1', '2001:db8:0:0:9::', true],
  ['2001:db8::1:2:3:4:5', '2001:db8:0:1::', true],
  ['2001:db8::1:2:3:4:5', '2001:db8:0:2::', false],
  ['::1', '::2', true],
  ['::1', '::1:0:0:0:1', false],
  ['::', '::1', true],
])(
  'after 100 failed logins from %s, throttles a login from %s: %s (an IPv6 /64 counts as one client)',
  async (failing, login, isThrottled) => {
    const { fail, outcome } = await started()
    await fail(failing, 99)
    expect(await outcome(login)).toBe('issued')
    await fail(failing)
    expect(await outcome(failing)).toBe('throttled')
    expect(await outcome(login)).toBe(isThrottled ? 'throttled' : 'issued')
  },
)

it('counts malformed logins as failures, and then throttles the client for the reported time', async () => {
  const { clock, service, fail } = await started()
  const odd: [unknown, unknown][] = [
    [5, 'demo'],
    ['demo', 5],
    ['x'.repeat(65), 'demo'],
    [null, null],
  ]
  for (const [name, password] of odd) {
    expect(await service.login(name, password, '::1')).toEqual({ outcome: 'refused' })
  }
  await fail('::1', 100 - odd.length)
  expect(await service.login(null, null, '::1')).toEqual({ outcome: 'throttled', waitSeconds: 300 })
  clock.time += 299_001
  expect(await service.login(null, null, '::1')).toEqual({ outcome: 'throttled', waitSeconds: 1 })
  clock.time += 1_000
  expect(await service.login(null, null, '::1')).toEqual({ outcome: 'refused' })
})

it('accepts only tokens that it has issued, for 24 hours', async () => {
  const { clock, service, tokens } = await started()
  const login = await service.login(PRESET_USER.name, PRESET_USER.password, '::1')
  if (login.outcome !== 'issued') throw new Error(login.outcome)
  const { token } = login.issued
  expect(await service.accepts(token)).toBe(true)
  for (const other of [`${token}x`, '', 'a.b.c', null, 5, [token]]) {
    expect([other, await service.accepts(other)]).toEqual([other, false])
  }
  const foreign = await tokens.issue({
    ...{ audience: 'another', subject: PRESET_USER.name, lifeSeconds: 60, claims: {} },
  })
  expect(await service.accepts(foreign.token)).toBe(false)
  clock.time += 24 * 60 * 60 * 1000
  expect(await service.accepts(token)).toBe(false)
})

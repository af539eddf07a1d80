import { expect, it } from 'vitest'
import { json, type SamplesListener, startSamples } from '../support/samples-listener.ts'

const USERS = [
  { name: 'ada', password: 'correct horse' },
  { name: 'bob', password: 'battery staple' },
]
const HELD_OFF =
  /^\{"success":false,"message":"Too many failed attempts. Try again in \d+ seconds."\}$/

async function withSamples(work: (samples: SamplesListener) => Promise<void>): Promise<void> {
  const samples = await startSamples({ users: USERS })
  try {
    await work(samples)
  } finally {
    await samples.close()
  }
}

const login = (samples: SamplesListener, name: string, password: string, localAddress?: string) =>
  samples.call('POST', '/api/authenticate', {
    ...json({ name, password }),
    ...(localAddress === undefined ? {} : { localAddress }),
  })

it('after ten wrong passwords for a name, returns 429 for that name from the same address, but not for other names or addresses', () =>
  withSamples(async (samples) => {
    const statuses = []
    for (let count = 0; count < 130; count += 1) {
      statuses.push((await login(samples, 'ada', `wrong ${count}`)).status)
    }
    expect(statuses).toEqual([...Array(10).fill(200), ...Array(120).fill(429)])

    const held = await login(samples, 'ada', 'correct horse')
    expect([held.status, held.headers['retry-after']]).toEqual([429, '300'])
    expect(held.text).toMatch(HELD_OFF)

    const other = await login(samples, 'bob', 'battery staple', '127.0.0.2')
    expect(JSON.parse(other.text).success).toBe(true)
    // Another name can also log in from the same address, because this address has only ten of the hundred failures
    // that block it.
    expect(JSON.parse((await login(samples, 'bob', 'battery staple')).text).success).toBe(true)
    // The name can also log in from another address.
    const elsewhere = await login(samples, 'ada', 'correct horse', '127.0.0.2')
    expect(JSON.parse(elsewhere.text).success).toBe(true)
  }))

it('blocks every name from an address for five minutes after a hundred failures from the address', () =>
  withSamples(async (samples) => {
    const statuses = []
    for (let count = 0; count < 101; count += 1) {
      statuses.push((await login(samples, `nobody ${count}`, 'x')).status)
    }
    expect(statuses).toEqual([...Array(100).fill(200), 429])
    expect((await login(samples, 'bob', 'battery staple')).status).toBe(429)
    samples.clock.nowMs += 5 * 60 * 1000 - 1
    expect((await login(samples, 'bob', 'battery staple')).headers['retry-after']).toBe('1')
    samples.clock.nowMs += 1
    expect(JSON.parse((await login(samples, 'bob', 'battery staple')).text).success).toBe(true)
  }))

it('allows no more guesses to concurrent requests than to sequential requests', () =>
  withSamples(async (samples) => {
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, count) => login(samples, 'ada', `wrong ${count}`)),
    )
    // Two passwords are checked concurrently, so an eleventh guess may be checked.
    const looked = answers.filter(({ status }) => status === 200).length
    expect(looked).toBeGreaterThanOrEqual(10)
    expect(looked).toBeLessThanOrEqual(11)
  }))

it('accepts fifty correct logins at once', () =>
  withSamples(async (samples) => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => login(samples, 'ada', 'correct horse')),
    )
    expect(answers.filter(({ text }) => JSON.parse(text).success)).toHaveLength(50)
  }))

it('resets the failures of a name after a correct password', () =>
  withSamples(async (samples) => {
    for (let round = 0; round < 3; round += 1) {
      for (let count = 0; count < 9; count += 1) await login(samples, 'ada', 'wrong')
      expect(JSON.parse((await login(samples, 'ada', 'correct horse')).text).success).toBe(true)
    }
  }))

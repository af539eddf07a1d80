import { pino } from 'pino'
import { expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { buildApp } from '../../http/index.ts'
import { readSettings } from '../settings.ts'
import { COMPONENTS, type Surroundings } from './components.ts'

/** What a component is made of on this machine, and the messages that are logged meanwhile. */
function surroundings(variables: Readonly<Record<string, string>>, host = 'localhost') {
  const logged: string[] = []
  const write = (line: string) => logged.push(JSON.parse(line).msg)
  const around: Surroundings = {
    ...{ settings: readSettings(variables), host, clock: systemClock, version: '0.0.0' },
    ...{ ledger: null, tokens: null, notices: [], logger: pino({ level: 'warn' }, { write }) },
  }
  return { around, logged }
}

it('rates are recorded by the ledger of the same process, or the start is refused', async () => {
  const { around } = surroundings({ RATES_RECORD: '1' })
  await expect(COMPONENTS.rates(around)).rejects.toMatchObject({
    code: 78,
    message: 'RATES_RECORD=1 needs the ledger in the same process',
  })
})

it('tokens that no command could make are worth a warning, and so is a ledger that keeps nothing', async () => {
  const { around, logged } = surroundings({ TOKENS: 'required' })
  await (await COMPONENTS.ledger(around)).close?.()
  expect(logged).toEqual([
    'SYSTEM_FOLDER is not set: all data is lost when this process ends',
    'TOKENS=required without SYSTEM_FOLDER or SECRET: only POST /session makes tokens',
  ])
  const secret = surroundings({ TOKENS: 'required', SECRET: 's'.repeat(32) })
  await (await COMPONENTS.ledger(secret.around)).close?.()
  expect(secret.logged).toHaveLength(1)
})

it('a filter that looks for a header only is called what it is', async () => {
  const { around, logged } = surroundings({ PRESENCE_FILTER: '1' })
  await (await COMPONENTS.samples(around)).close?.()
  expect(logged).toEqual(['PRESENCE_FILTER looks for a header, not at it: it keeps nobody out'])
  expect(around.notices).toEqual([
    expect.stringMatching(/^Sample API: name ".+" \(preset\)$/),
    expect.stringMatching(/^\/hello\?id=\S+ name ".+" \(preset\)$/),
  ])
})

it('presets are for whoever only this machine can reach', async () => {
  for (const host of ['localhost', '::1', '127.0.0.1', '127.9.9.9']) {
    await (await COMPONENTS.ledger(surroundings({}, host).around)).close?.()
  }
  for (const host of ['0.0.0.0', '::', '127.example.com', '192.168.0.1']) {
    await expect(COMPONENTS.ledger(surroundings({}, host).around)).rejects.toMatchObject({
      code: 78,
      message: expect.stringContaining(`BASIC_PASSWORD to listen on ${host}`),
    })
  }
})

it('counts wrong passwords by a clock that is never set back', async () => {
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['Date'] })
  const { around } = surroundings({})
  const component = await COMPONENTS.ledger(around)
  const app = await buildApp(component, { logger: around.logger, publicHosts: new Set() })
  onTestFinished(() => app.close())
  const authorization = `Basic ${Buffer.from('somebody:wrong').toString('base64')}`
  const enter = () => app.inject({ url: '/', headers: { host: 'localhost', authorization } })
  for (let failure = 0; failure < 20; failure += 1) expect((await enter()).statusCode).toBe(401)
  const yearMs = 365 * 24 * 60 * 60 * 1000
  vi.setSystemTime(Date.now() - yearMs)
  const held = await enter()
  expect(held.statusCode).toBe(429)
  expect(Number(held.headers['retry-after'])).toBeLessThanOrEqual(300)
})

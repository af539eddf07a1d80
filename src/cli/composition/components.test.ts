import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { buildApp } from '../../http/index.ts'
import { openLedger } from '../../ledger/core.ts'
import {
  type ComponentName,
  type ComposedApp,
  composeApp,
  reportVerification,
} from './components.ts'
import { readSettings } from './settings.ts'

/** Composes an app of the components `names`, and collects its log messages in `logged`. */
function compose(
  names: ComponentName | readonly ComponentName[],
  variables: Readonly<Record<string, string>>,
  host = 'localhost',
) {
  const logged: string[] = []
  const write = (line: string) => logged.push(JSON.parse(line).msg)
  const logger = pino({ level: 'warn' }, { write })
  const composed = composeApp({
    ...{ names: [names].flat(), settings: readSettings(variables), host, clock: systemClock },
    ...{ logger, version: '0.0.0' },
  })
  return { composed, logged, logger }
}

/** Waits for an app and closes it. The app has no listeners. */
async function closed(composed: Promise<ComposedApp>): Promise<ComposedApp> {
  const app = await composed
  await app.close()
  return app
}

it('rejects RATES_RECORD without a ledger in the same process', async () => {
  await expect(compose('rates', { RATES_RECORD: '1' }).composed).rejects.toMatchObject({
    code: 78,
    message: 'RATES_RECORD=1 needs the ledger in the same process: add ledger to --only',
  })
})

it('warns about a ledger in memory, and about tokens that the CLI cannot issue', async () => {
  const { composed, logged } = compose('ledger', { TOKENS: 'required' })
  await closed(composed)
  expect(logged).toEqual([
    'SYSTEM_FOLDER is not set: all data is lost when this process ends',
    'TOKENS=required without SYSTEM_FOLDER or SECRET: only POST /session creates tokens',
  ])
  const secret = compose('ledger', { TOKENS: 'required', SECRET: 's'.repeat(32) })
  await closed(secret.composed)
  expect(secret.logged).toHaveLength(1)
})

it('warns that the presence filter does not authenticate', async () => {
  const { composed, logged } = compose('samples', { PRESENCE_FILTER: '1' })
  const { notices } = await closed(composed)
  expect(logged).toEqual([
    'PRESENCE_FILTER checks only that an Authorization header exists: it protects nothing',
  ])
  expect(notices).toEqual([
    expect.stringMatching(/^Sample API: name ".+" \(preset\)$/),
    expect.stringMatching(/^\/hello\?id=\S+ name ".+" \(preset\)$/),
  ])
})

it('uses preset credentials only on a loopback address, and not behind a proxy with a public name', async () => {
  for (const host of ['localhost', '::1', '127.0.0.1', '127.9.9.9']) {
    await closed(compose('ledger', {}, host).composed)
  }
  for (const host of ['0.0.0.0', '::', '127.example.com', '192.168.0.1']) {
    await expect(compose('ledger', {}, host).composed).rejects.toMatchObject({
      code: 78,
      message: expect.stringContaining(`BASIC_PASSWORD to be reachable at ${host}`),
    })
  }
  const names = { PUBLIC_HOSTS: 'ledger.example.com,gateway.example.com' }
  const address = 'ledger.example.com, gateway.example.com'
  for (const [component, message] of [
    ['ledger', `set BASIC_USERNAME and BASIC_PASSWORD to be reachable at ${address}`],
    ['gateway', `to be reachable at ${address}, set GATEWAY_API_KEY, or GATEWAY_OPEN=1`],
  ] as const) {
    await expect(compose(component, names).composed).rejects.toMatchObject({
      code: 78,
      message: expect.stringContaining(message),
    })
  }
  const set = { ...names, BASIC_USERNAME: 'admin', BASIC_PASSWORD: 'x', GATEWAY_API_KEY: 'k' }
  for (const component of ['ledger', 'gateway'] as const) {
    await closed(compose(component, set).composed)
  }
})

it.each([
  ['0.0.0.0', {}, '0.0.0.0'],
  ['localhost', { PUBLIC_HOSTS: 'ledger.example.com' }, 'ledger.example.com'],
])(
  'on %s with %j, warns on the terminal and in the log that tokens are off and the gateway is open',
  async (host, names, address) => {
    const open = { ...names, BASIC_USERNAME: 'admin', BASIC_PASSWORD: 'x', GATEWAY_OPEN: '1' }
    const { composed, logged } = compose(['ledger', 'gateway'], open, host)
    const warnings = [
      `TOKENS is off on ${address}: anyone who reaches the port can read and change all data`,
      `GATEWAY_OPEN=1 on ${address}: anyone who reaches the port can submit transactions`,
    ]
    expect((await closed(composed)).notices).toEqual(warnings)
    expect(logged.slice(1)).toEqual(warnings)
    const guarded = { ...open, TOKENS: 'required', SECRET: 's'.repeat(32), GATEWAY_API_KEY: 'k' }
    const second = compose(['ledger', 'gateway'], guarded, host)
    expect((await closed(second.composed)).notices).toEqual([])
    expect(second.logged).toHaveLength(1)
  },
)

it('does not warn about missing tokens on a loopback address without public names', async () => {
  const { composed, logged } = compose(['ledger', 'gateway'], {})
  expect((await closed(composed)).notices).toEqual([expect.stringMatching(/^Dashboard login: /)])
  expect(logged).toHaveLength(1)
})

it('measures the throttling of wrong passwords with a monotonic clock', async () => {
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['Date'] })
  const { composed, logger } = compose('ledger', {})
  const { components, close } = await composed
  const component = components.get('ledger')
  assert(component !== undefined)
  const app = await buildApp(component, { logger, publicHosts: new Set() })
  onTestFinished(async () => {
    await app.close()
    await close()
  })
  const authorization = `Basic ${Buffer.from('somebody:wrong').toString('base64')}`
  const enter = () => app.inject({ url: '/', headers: { host: 'localhost', authorization } })
  for (let failure = 0; failure < 20; failure += 1) expect((await enter()).statusCode).toBe(401)
  const yearMs = 365 * 24 * 60 * 60 * 1000
  vi.setSystemTime(Date.now() - yearMs)
  const throttled = await enter()
  expect(throttled.statusCode).toBe(429)
  expect(Number(throttled.headers['retry-after'])).toBeLessThanOrEqual(300)
})

it('warns at the start if the chain is empty, because the disk with SYSTEM_FOLDER may be missing', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'daicho-empty-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const logged = async () => {
    const composition = compose('ledger', { SYSTEM_FOLDER: folder })
    await closed(composition.composed)
    return composition.logged
  }
  const warning = 'the chain is empty; if this node had data, stop it and check SYSTEM_FOLDER'
  expect(await logged()).toEqual([warning])
  const ledger = await openLedger({ folder, clock: systemClock })
  await ledger.service.write.createDatabase('fruit')
  await ledger.close()
  expect(await logged()).toEqual([])
})

it('opens the ledger once for all components, whichever component is created first', async () => {
  const names = ['gateway', 'rates', 'ledger'] as const
  const { composed, logged } = compose(names, { RATES_RECORD: '1' })
  const { components } = await closed(composed)
  expect([...components.keys()]).toEqual(names)
  expect(logged).toEqual(['SYSTEM_FOLDER is not set: all data is lost when this process ends'])
})

it('logs the end of a verification as `finished`, so that the member `time` is the time of the line', () => {
  const lines: string[] = []
  const timestamp = () => ',"time":"2027-01-15T08:00:00.000Z"'
  const logger = pino({ base: null, timestamp }, { write: (line: string) => lines.push(line) })
  const at = { time: 1_800_000_000_000, seconds: 2.5 }
  reportVerification({ result: 'passed', blocks: 2, entries: 3, ...at }, logger)
  expect(lines).toEqual([
    '{"level":30,"time":"2027-01-15T08:00:00.000Z","finished":1800000000000,"blocks":2,"entries":3,"seconds":2.5,' +
      '"msg":"verification passed"}\n',
  ])
})

// `daicho rates` prints a table or one line of JSON, and sets its exit code.

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { PAIRS } from '../src/rate-feed/index.ts'
import { runDaicho } from './support/daicho.ts'
import { temporaryFolder } from './support/ledger-node.ts'

/** Units of each currency per EUR. CNH is missing, so the feed uses CNY instead. */
const perEur = {
  ...{ USD: 1.1, JPY: 176, GBP: 0.88, SEK: 11, CHF: 0.935, NOK: 10.78, TRY: 55.42 },
  ...{ AUD: 1.614, CAD: 1.606, CNY: 7.5554, HKD: 8.8438, MXN: 20.2217, NZD: 2.0061, ZAR: 18.58 },
}

/** Returns the environment variables for a feed whose only source is a file with rates of the date `asOf`. */
function fromFile(asOf: string): Record<string, string> {
  const folder = temporaryFolder()
  const vector = join(folder, 'vector.json')
  writeFileSync(vector, JSON.stringify({ source: 'desk', asOf, perEur }))
  return { RATES_SOURCES: `file:${vector}`, SYSTEM_FOLDER: join(folder, 'data') }
}

const today = () => new Date().toISOString().slice(0, 10)

/** Starts a server that replies to every request with `status` and `body`, and records the requested URLs. */
async function answering(status: number, body: string) {
  const requestedUrls: (string | undefined)[] = []
  const server = createServer((request, response) => {
    requestedUrls.push(request.url)
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { requestedUrls, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

let asJson: string
beforeAll(async () => {
  asJson = (await runDaicho(['rates', '--json'], { RATES_SOURCES: 'snapshot' })).stdout
})

it('prints one aligned line for each pair, and names the pairs that are computed with a substitute currency', async () => {
  const { code, stdout, stderr } = await runDaicho(['rates'], fromFile(today()))
  expect([code, stderr]).toEqual([0, ''])
  const [head = '', empty, ...lines] = stdout.trimEnd().split('\n')
  expect(head).toMatch(
    new RegExp(
      `^Rates of ${today()} from file \\(desk\\); read ${today()} \\d\\d:\\d\\d:\\d\\d\\+0$`,
    ),
  )
  expect(empty).toBe('')
  const rates = lines.slice(0, PAIRS.length)
  expect(rates.map((line) => line.split(' ')[0])).toEqual(PAIRS)
  expect(rates).toContain('USDJPY    160')
  expect(rates).toContain('EURUSD      1.1')
  expect(rates).toContain('GBPJPY    200')
  expect(lines.slice(PAIRS.length)).toEqual(['', 'Substitute: CNHJPY is computed as CNYJPY'])
})

it('prints stale rates with a warning', async () => {
  const { code, stdout, stderr } = await runDaicho(['rates'], { RATES_SOURCES: 'snapshot' })
  expect(code).toBe(0)
  expect(stdout).toMatch(/^Rates of 2026-10-06 from snapshot( \(\w+\))?, stale; read /)
  expect(stderr).toMatch(/^daicho: .+\n$/)
})

it('prints the body of GET /?detail=1 as one line with --json', async () => {
  expect(asJson.indexOf('\n')).toBe(asJson.length - 1)
  const body = JSON.parse(asJson)
  expect(Object.keys(body)).toEqual(['status', 'result', 'meta'])
  expect(Object.keys(body.result.rate)).toEqual([...PAIRS])
  expect(body.meta).toMatchObject({ source: 'snapshot', asOf: '2026-10-06', stale: true })
})

it('prints the reply of the feed at --url, with a warning if its rates are stale', async () => {
  const { url, requestedUrls } = await answering(200, asJson)
  const whole = await runDaicho(['rates', '--url', url])
  expect(whole).toMatchObject({
    code: 0,
    stderr: 'daicho: these rates are stale, from 2026-10-06\n',
  })
  expect(whole.stdout).toMatch(/^Rates of 2026-10-06 from snapshot/)
  expect(await runDaicho(['rates', '--url', url, '--json'])).toEqual({
    code: 0,
    stdout: asJson,
    stderr: '',
  })
  expect(requestedUrls).toEqual(['/?detail=1', '/?detail=1'])
  // Moves the cursor of a terminal.
  const hostile = await answering(
    200,
    asJson.replace('"source":"snapshot"', '"source":"\\u001b[A"'),
  )
  const shown = await runDaicho(['rates', '--url', hostile.url])
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('from \\u001b[A')])
})

it.each([
  ['an error', 503, '{"status":false,"code":"RATES_UNAVAILABLE","message":"none yet"}'],
  ['a result without rates', 200, '{"status":true,"result":{}}'],
  ['not JSON', 200, '<html>'],
])(
  'exits with code 1 and prints nothing to stdout if the reply of --url is %s',
  async (_, status, body) => {
    const { url } = await answering(status, body)
    const ended = await runDaicho(['rates', '--url', url])
    expect([ended.code, ended.stdout]).toEqual([1, ''])
    expect(ended.stderr).toContain(
      `${new URL(url).host} answered with status ${status}, without rates`,
    )
  },
)

it('exits with code 1 if the server at --url does not answer', async () => {
  const ended = await runDaicho(['rates', '--url', 'http://127.0.0.1:1/'])
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  expect(ended.stderr).toContain('127.0.0.1')
})

it('exits with code 1 if no rates are available, even with --json', async () => {
  const strict = { RATES_SOURCES: 'snapshot', RATES_STRICT: '1' }
  const ended = await runDaicho(['rates'], strict)
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  const json = await runDaicho(['rates', '--json'], strict)
  expect(json.code).toBe(1)
  expect(JSON.parse(json.stdout)).toMatchObject({ status: false, code: expect.any(String) })
})

it.each([
  ['an unknown source in RATES_SOURCES', [], { RATES_SOURCES: 'nowhere' }, 78, 'nowhere'],
  [
    'a --url with an unsupported protocol',
    ['--url', 'ftp://127.0.0.1/'],
    {},
    2,
    'http:// or https://',
  ],
  ['a --url that is not a URL', ['--url', 'feed'], {}, 2, 'http:// or https://'],
] as const)('exits with the documented code for %s', async (_, given, variables, code, text) => {
  const ended = await runDaicho(['rates', ...given], variables)
  expect([ended.code, ended.stdout]).toEqual([code, ''])
  expect(ended.stderr).toContain(text)
})

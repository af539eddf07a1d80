// The web pages of the converter, the rates and the API documentation: layout, Content-Security-Policy, light and
// dark mode, wide and narrow windows, keyboard, English and Japanese.
import type { RequestListener } from 'node:http'
import { pino } from 'pino'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Listener, startListener } from '../../src/http/index.ts'
import { PAIRS, rateFeedComponent } from '../../src/rate-feed/index.ts'
import { startConverter } from '../converter/service.ts'
import { depsWith, ecbFile, ManualClock, SourceServer } from '../rates/feeds.ts'
import { expectAccessible, tabStops } from '../support/accessibility.ts'
import { launchBrowser } from '../support/browser.ts'
import { startGateway } from '../support/gateway.ts'
import { startLedgerNode } from '../support/ledger-node.ts'
import { startSamples } from '../support/samples-listener.ts'
import { WAIT_MS } from '../support/until.ts'

let browser: Browser
beforeAll(async () => {
  browser = await launchBrowser()
})
afterAll(() => browser.close())

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})

/** Opens the page `path` of a listener, and records policy violations, errors and requests to other hosts. */
async function openPage(
  url: string,
  path: string,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({ locale: 'en', timezoneId: 'UTC', ...options })
  open.push(context)
  const page = await context.newPage()
  page.setDefaultTimeout(WAIT_MS)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (line) => {
    if (line.type() === 'error') complaints.push(line.text())
  })
  page.on('request', (request) => {
    const requestUrl = request.url()
    if (!requestUrl.startsWith(`${url}/`) && !/^(blob|data):/.test(requestUrl))
      complaints.push(requestUrl)
  })
  await page.goto(`${url}${path}`)
  return { page, complaints }
}

describe('the upload page of the converter', () => {
  it('the upload page of the converter is accessible without a file, with a picture, and with a file that is not an image', async () => {
    const converter = await startConverter()
    open.push(converter)
    const { page, complaints } = await openPage(converter.url, '/page')
    await page.getByText('The cells will be shown here.').waitFor()
    await expectAccessible(page, 'converter')
    const pixels = Buffer.from(Array.from({ length: 60 * 40 * 3 }, (_, at) => (at * 7) & 255))
    const picture = await sharp(pixels, { raw: { width: 60, height: 40, channels: 3 } })
      .png()
      .toBuffer()
    const name = 'a picture with a long name of many words.png'
    await page.setInputFiles('#file', { name, mimeType: 'image/png', buffer: picture })
    await page.locator('#facts').waitFor()
    await page.locator('.stage:not(.busy)').waitFor()
    await expectAccessible(page, 'converter-picture')
    expect(complaints).toEqual([])
    const text = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }
    await page.setInputFiles('#file', text)
    await page.locator('#message.bad').waitFor()
    await expectAccessible(page, 'converter-refused')
  })

  it('the upload page of the converter is in Japanese in a Japanese browser, and Tab reaches every field', async () => {
    const converter = await startConverter()
    open.push(converter)
    const { page, complaints } = await openPage(converter.url, '/page', { locale: 'ja-JP' })
    await page.getByRole('heading', { level: 1, name: '画像を表計算に' }).waitFor()
    expect(await page.getAttribute('html', 'lang')).toBe('ja')
    await expectAccessible(page, 'converter-ja', null, false)
    await page.locator('select.language').selectOption('en')
    await page.getByRole('heading', { level: 1, name: 'Image to spreadsheet' }).waitFor()
    expect(await tabStops(page, 20)).toEqual([
      'a Skip to the content',
      'a daicho',
      'a Image to spreadsheet',
      'a API',
      'select Language',
      'input Drop an image here',
      'input Across',
      'input Down',
      'input Side, pixels',
      'select Resizing',
      'input Initial zoom, %',
      'select At most',
      'input Fill transparent areas',
      'input Shades of gray',
      'button Download the workbook',
    ])
    expect(complaints).toEqual([])
  })
})

describe('the page of the rates', () => {
  /** Starts a rate feed with `sources`. The source server replies with `answer`, or with 503 by default. */
  async function startRates(sources: string, answer?: RequestListener): Promise<Listener> {
    const server = new SourceServer()
    if (answer !== undefined) server.answer = answer
    await server.open()
    open.push(server)
    const clock = new ManualClock(Date.parse('2026-10-08T21:05:09.999Z'))
    const deps = depsWith(server, clock, sources, {}, { get: server.get(1_000) })
    const component = rateFeedComponent({ ...deps, version: '0.0.0' })
    const logger = pino({ level: 'silent' })
    const where = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
    const listener = await startListener(component, where)
    open.push(listener)
    return listener
  }

  it('shows the twenty currency pairs of the service with their source, and marks stale rates', async () => {
    const { url } = await startRates('ecb,snapshot')
    const { page, complaints } = await openPage(url, '/page')
    const rows = page.locator('#rates tbody tr')
    await rows.first().waitFor()
    const { result } = (await (await fetch(`${url}/`)).json()) as {
      result: { rate: Record<string, number> }
    }
    expect(await rows.evaluateAll((all) => all.map((row) => row.textContent))).toEqual(
      PAIRS.map((pair) => {
        const name = `${pair.slice(0, 3)} / ${pair.slice(3)}`
        return `${name}${result.rate[pair]?.toFixed(pair.endsWith('JPY') ? 3 : 5)}`
      }),
    )
    await page.getByText('No live source has confirmed these rates recently').waitFor()
    await page.getByText('snapshot').first().waitFor()
    await page.locator('.sources .failed').first().waitFor()
    await expectAccessible(page, 'rates-stale')
    expect(complaints).toEqual([])
  })

  it('shows the rates of a live source, and is in Japanese in a Japanese browser', async () => {
    const { url } = await startRates('ecb,snapshot', (_request, reply) =>
      reply.end(ecbFile('2026-10-08')),
    )
    const { page, complaints } = await openPage(url, '/page', { locale: 'ja-JP' })
    await page.getByRole('heading', { level: 1, name: '為替レート' }).waitFor()
    await page.locator('#rates tbody tr').first().waitFor()
    await page.locator('#from').getByText('2026-10-08', { exact: true }).waitFor()
    expect(await page.locator('#stale').isHidden()).toBe(true)
    expect(await page.locator('.sources .failed').count()).toBe(0)
    await expectAccessible(page, 'rates-ja', null, false)
    expect(complaints).toEqual([])
  })

  it('reports missing rates and an unreachable service', async () => {
    const rates = await startRates('ecb')
    const { page } = await openPage(rates.url, '/page')
    await page.getByText('There are no rates now:').waitFor()
    await expectAccessible(page, 'rates-none')
    await page.route('**/healthz', (route) => route.abort())
    await page.reload()
    await page.getByText('The service cannot be reached.').waitFor()
  })
})

/**
 * The axe rules that cover our own elements and colours. Other violations come from Swagger UI, so they are
 * ignored.
 */
const OURS = 'color-contrast page-has-heading-one html-has-lang link-name image-alt region'.split(
  ' ',
)

/** The Content-Security-Policy of every page of every listener. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

describe('the documentation of each listener', () => {
  it.each([
    ['ledger', '/doc', '/api/dbs', async () => startLedgerNode()],
    ['converter', '/', '/image', async () => startConverter()],
    ['samples', '/doc', '/api/users', async () => startSamples()],
    ['gateway', '/explorer', '/Commodity', async () => startGateway()],
  ] as const)(
    'the documentation of the %s has the common layout and is accessible',
    async (name, path, listed, start) => {
      const listener = await start()
      open.push(listener)
      const url = 'url' in listener ? listener.url : `http://127.0.0.1:${listener.port}`
      const { page, complaints } = await openPage(url, path)
      const operation = page.locator(`.opblock-summary-path[data-path="${listed}"]`).first()
      await operation.waitFor()
      await page.getByRole('banner').getByText('daicho').waitFor()
      expect(await page.locator('.btn.authorize').count()).toBe(
        /samples|gateway/.test(name) ? 1 : 0,
      )
      await expectAccessible(page, `doc-${name}`, OURS)
      await operation.click()
      await page.locator('.opblock-body').first().waitFor()
      if (name === 'gateway') {
        await page.locator('.try-out__btn').click()
        await page.locator('.execute').click()
        await page.locator('.live-responses-table .download-contents').waitFor()
      }
      await expectAccessible(page, `doc-${name}-open`, OURS)
      expect(complaints).toEqual([])
      for (const shown of name === 'converter' ? [path, '/page'] : [path]) {
        const reply = await fetch(`${url}${shown}`)
        expect(reply.headers.get('content-security-policy')).toBe(POLICY)
        const inline = /<script(?![^>]*src=)|<style|\s(?:on\w+|style)=|https?:/
        expect(await reply.text()).not.toMatch(inline)
      }
    },
  )
})

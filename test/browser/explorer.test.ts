// The explorer in a real browser: “try it out” creates, lists and filters a Commodity.
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { launchBrowser } from '../support/browser.ts'
import { type GatewayNode, startGateway } from '../support/gateway.ts'

let browser: Browser
let node: GatewayNode
beforeAll(async () => {
  node = await startGateway()
  browser = await launchBrowser()
})
afterAll(async () => {
  await browser.close()
  await node.close()
})

/** Opens the operation and its request form. */
async function tryOut(page: Page, verb: string, path: string): Promise<Locator> {
  const operation = page.locator(`.opblock-${verb}`).filter({
    has: page.locator(`.opblock-summary-path[data-path="${path}"]`),
  })
  await operation.locator('.opblock-summary-control').click()
  await operation.locator('.try-out__btn').click()
  return operation
}

/** Executes the operation, and returns the status and the body that the page shows. */
async function execute(operation: Locator): Promise<{ status: string; body: unknown }> {
  await operation.locator('.execute').click()
  const live = operation.locator('.live-responses-table')
  await live.locator('.response-col_status').last().waitFor()
  const status = await live.locator('tbody .response-col_status').first().innerText()
  const text = await live.locator('tbody .highlight-code').first().innerText()
  return { status: status.trim(), body: JSON.parse(text.replace(/^(Download|Copy)?\s*/, '')) }
}

it('“try it out” creates, lists and filters a Commodity without requests to other hosts', async () => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1400 } })
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (line) => {
    if (line.type() === 'error') complaints.push(line.text())
  })
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(node.url) && !/^(data|blob):/.test(url)) complaints.push(`fetched ${url}`)
  })
  await page.goto(node.url)
  expect(page.url()).toBe(`${node.url}/explorer`)
  await page.locator('.opblock-summary-path[data-path="/Commodity"]').first().waitFor()
  for (const path of ['/Commodity', '/Commodity/{id}', '/Trader', '/Trade', '/system/historian']) {
    expect(
      await page.locator(`.opblock-summary-path[data-path="${path}"]`).count(),
    ).toBeGreaterThan(0)
  }

  const create = await tryOut(page, 'post', '/Commodity')
  const body = create.locator('textarea.body-param__text')
  const example = JSON.parse(await body.inputValue())
  expect(example).toEqual({
    $class: 'org.acme.mynetwork.Commodity',
    tradingSymbol: expect.any(String),
    description: expect.any(String),
    mainExchange: expect.any(String),
    quantity: expect.any(Number),
    owner: expect.stringMatching(/^resource:org\.acme\.mynetwork\.Trader#/),
  })
  // Creates the example unchanged, then a different item.
  expect((await execute(create)).status).toBe('200')
  // U+202E would show `evil` as `live`.
  const mine = { ...example, tradingSymbol: 'RICE', quantity: 3, description: '\u202eevil' }
  await body.fill(JSON.stringify(mine))
  await page.locator('.live-responses-table').first().waitFor()
  const created = await execute(create)
  await expect.poll(async () => (await node.send('GET', '/api/Commodity')).json.length).toBe(2)
  expect(created.status).toBe('200')
  const shown = await create.locator('tbody .highlight-code').first().innerText()
  expect(shown).toContain('"description": "\\u202eevil"')
  await create.locator('.opblock-summary-control').click()

  const list = await tryOut(page, 'get', '/Commodity')
  const all = await execute(list)
  expect(all.status).toBe('200')
  expect(all.body).toHaveLength(2)
  await list.locator('input[placeholder=filter]').fill('{"where":{"quantity":{"gt":2}}}')
  await list.locator('.btn-clear').click()
  const some = await execute(list)
  expect(some.body).toEqual([mine])

  const trade = page.locator('.opblock-post').filter({
    has: page.locator('.opblock-summary-path[data-path="/Trade"]'),
  })
  await trade.locator('.opblock-summary-control').click()
  await trade.locator('.try-out__btn').click()
  const sample = JSON.parse(await trade.locator('textarea.body-param__text').inputValue())
  expect(Object.keys(sample).sort()).toEqual(['$class', 'commodity', 'newOwner'])
  expect(complaints).toEqual([])
  await page.close()
})

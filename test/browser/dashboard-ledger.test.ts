// The dashboard with a chain of 30,000 items (150,000 in the thorough form), the verification of valid and invalid chains, and the accessibility
// and Content-Security-Policy of every view.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectAccessible } from '../support/accessibility.ts'
import { dashboards, writeJson } from '../support/dashboard-page.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { IS_THOROUGH } from '../support/rounds.ts'
import { tamper } from '../support/tampered.ts'

const PER_REQUEST = IS_THOROUGH ? 10_000 : 2_000
const ITEMS = 15 * PER_REQUEST
/** Number of items with the country `JP` at the end. */
const JAPANESE = 15 * Math.ceil(PER_REQUEST / 75) + 1
const shownNumber = (value: number) => value.toLocaleString('en')

const { startNode, openPage } = dashboards()
let node: LedgerNode
beforeAll(async () => {
  node = await startLedgerNode({ dashboard: true })
  await node.send('POST', '/api/places')
  for (let from = 0; from < ITEMS; from += PER_REQUEST) {
    const items = Array.from({ length: PER_REQUEST }, (_, at) => ({
      id: `place-${from + at}`,
      name: `Place ${from + at}`,
      country: at % 75 === 0 ? 'JP' : 'FR',
    }))
    expect((await node.send('POST', '/api/places', items)).status).toBe(200)
  }
  await node.send('POST', '/api/places/place-7', { name: 'Place 7', country: 'JP', since: 1889 })
  await node.send('POST', '/api/places/place-7', { name: 'Seven', country: 'JP', tags: ['old'] })
})
afterAll(() => node.close())

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const shown = (page: Page, text: string) => page.getByText(text).first().waitFor()

it('pages through many items in both directions, and filters the ledger by height, database and method', async () => {
  const { page, complaints } = await openPage(node, { at: '#/db/places' })
  const rows = page.locator('.items tbody tr')
  await rows.nth(49).waitFor()
  expect(await rows.count()).toBe(50)
  await button(page, 'Next').click()
  await page.getByRole('link', { name: 'place-99', exact: true }).waitFor()
  await shown(page, `Page 2 of ${shownNumber(ITEMS / 50)}`)
  await shown(page, `${shownNumber(ITEMS)} items`)
  await button(page, 'Previous').click()
  await page.getByRole('link', { name: 'place-0', exact: true }).waitFor()
  await page.locator('summary', { hasText: 'Summary' }).click()
  await page.getByLabel('Group by').selectOption('country')
  await page
    .locator('.summary')
    .getByText(shownNumber(ITEMS - JAPANESE))
    .waitFor()

  await page.getByRole('link', { name: 'Ledger', exact: true }).click()
  const blocks = page.locator('.block')
  await blocks.first().getByText('Block 17').waitFor()
  await blocks
    .nth(2)
    .getByRole('button', { name: `Show ${shownNumber(PER_REQUEST - 20)} more` })
    .waitFor()
  await page.getByRole('button', { name: 'Older', exact: true }).click()
  await page.getByText('Block 12', { exact: true }).waitFor()
  await page.getByLabel('Height').fill('3')
  await button(page, 'Go to height').click()
  await blocks.first().getByText('Block 3').waitFor()
  await page.getByLabel('Height').fill('')
  await button(page, 'Go to height').click()
  await page.getByLabel('Method').selectOption('update_item')
  await shown(page, 'The whole chain was searched.')
  expect(await blocks.count()).toBe(2)

  await page.getByLabel('From').fill('2999-01-01T00:00')
  await shown(page, 'No entry')
  expect(page.url()).toContain('&from=2999-01-')
  await page.getByLabel('From').fill('')

  await page.getByLabel('Height').fill('16')
  await button(page, 'Go to height').click()
  await shown(page, '17 blocks searched. The whole chain was searched.')
  expect(await page.getByLabel('Method').inputValue()).toBe('update_item')
  expect(await blocks.locator('strong').allTextContents()).toEqual(['Block 16'])
  await page.getByLabel('Height').fill('99')
  await button(page, 'Go to height').click()
  await shown(page, 'There is no block 99. The newest block has the height 17.')
  expect(await blocks.count()).toBe(0)
  await page.getByRole('link', { name: 'Show the newest blocks' }).click()
  await blocks.nth(1).waitFor()
  expect(page.url()).toBe(`${node.url}/#/ledger?method=update_item`)
  await page.getByLabel('Database').fill('elsewhere')
  await page.keyboard.press('Enter')
  await shown(page, 'No entry found so far.')
  expect(complaints).toEqual([])
})

it('filters many items by a member and by a JSON filter', async ({ skip }) => {
  const { paths } = (await node.send('GET', '/doc/json')).json
  const taken = JSON.stringify(paths['/api/{db}'].get.parameters)
  skip(!taken.includes('"filter"'), 'this node takes no filter')
  const { page, complaints } = await openPage(node, { at: '#/db/places' })
  const rows = page.locator('.items tbody tr')
  await page.getByText('Filter', { exact: true }).click()
  await page.getByLabel('Member').first().fill('name')
  await page.getByLabel('Operator').selectOption('like')
  await page.getByLabel('Value', { exact: true }).fill(`%${ITEMS - 1}`)
  await button(page, 'Show').click()
  await page.getByRole('link', { name: `place-${ITEMS - 1}`, exact: true }).waitFor()
  expect(await rows.count()).toBe(1)
  await button(page, 'JSON').click()
  await page.getByLabel('Filter as JSON').fill('{"country":"JP","since":{"exists":true}}')
  await button(page, 'Show').click()
  await shown(page, 'No item matches the filter.')
  await page.getByLabel('Filter as JSON').fill('{"nme":{"lx":1}}')
  await button(page, 'Show').click()
  await shown(page, 'FILTER_UNKNOWN')
  await button(page, 'Clear').click()
  await rows.nth(49).waitFor()

  expect(complaints).toEqual([])
})

it('recomputes the whole chain, and compares it with the previous verification', async () => {
  const { page, complaints } = await openPage(node, { at: '#/verify' })
  await button(page, 'Verify the chain').click()
  await page.locator('.verdict.good').waitFor()
  expect(await page.locator('.verdict').innerText()).toContain(
    `18 blocks, ${shownNumber(ITEMS + 3)} entries`,
  )
  const states = page.locator('.checks li small')
  expect((await states.allTextContents()).slice(0, 8)).toEqual(Array(8).fill('valid'))
  expect(await states.last().textContent()).toBe('nothing to compare with')
  await button(page, 'Verify again').click()
  await button(page, 'Stop').click()
  await shown(page, 'Stopped.')

  // Changes the remembered key, so that the node's key differs from it.
  await page.evaluate(`const name = 'daicho.verified ${node.url}/'
    localStorage.setItem(name, localStorage.getItem(name)
    .replace('"verifierKey":"', '"verifierKey":"!'))`)
  await button(page, 'Verify again').click()
  await page.locator('.verdict.bad').waitFor()
  await shown(page, 'The key of the node has changed since this browser verified it.')
  expect(complaints).toEqual([])
})

it.each([
  [
    'entry',
    `UPDATE blocks SET body = replace(body, '"price":5', '"price":6') WHERE height = 2`,
    'Entry 2.0 is not valid',
  ],
  ['block id', `UPDATE blocks SET nonce = 7 WHERE height = 3`, 'Block 3 is not valid'],
])(
  'shows in red that the verification failed, and links to the fault, if the store has a wrong %s',
  async (_, sql, message) => {
    const folder = temporaryFolder()
    const whole = await startLedgerNode({ folder })
    await whole.send('POST', '/api/fruit')
    for (let price = 4; price < 9; price += 1) await whole.send('POST', '/api/fruit', { price })
    await whole.close()
    tamper(folder, sql)
    const broken = await startNode({ folder })
    const { page, complaints } = await openPage(broken, { at: '#/verify' })
    await button(page, 'Verify the chain').click()
    await shown(page, 'The chain is not valid.')
    const verdict = page.locator('.verdict.bad')
    await verdict.getByRole('link', { name: message }).waitFor()
    expect(await page.locator('.checks .fails').count()).toBe(1)
    const red = await page
      .locator('.verdict-title')
      .evaluate((element) => `${Reflect.get(globalThis, 'getComputedStyle')(element).color}`)
    expect(red).toBe('rgb(179, 38, 30)')
    await verdict.getByRole('link').click()
    await page.locator('.block').first().waitFor()
    expect(complaints).toEqual([])
  },
)

/** The views that differ from those of a node with one item, which `dashboard-states.test.ts` checks. */
const VIEWS: readonly (readonly [string, string, string])[] = [
  ['items', '#/db/places', '.items tbody tr'],
  ['item', '#/db/places/place-7', '.revisions li'],
  ['ledger', '#/ledger', '.block'],
]

it('axe finds no accessibility violation at widths of 1280 and 360 pixels, and in dark mode', async () => {
  const { page, complaints } = await openPage(node)
  for (const [name, at, wait] of VIEWS) {
    await page.goto(`${node.url}/${at}`)
    await page.locator(wait).first().waitFor()
    await expectAccessible(page, name)
  }
  await page.goto(`${node.url}/#/db/places`)
  await button(page, 'Add item').click()
  await expectAccessible(page, 'add-item')
  await page.keyboard.press('Escape')
  await page.goto(`${node.url}/#/db/places/place-7`)
  await button(page, 'Edit').click()
  await writeJson(page, '{"a":')
  await expectAccessible(page, 'edit-item')
  // The page asks whether to lose the changes.
  page.once('dialog', (dialog) => void dialog.accept())
  await page.goto(`${node.url}/#/`)
  await button(page, 'Delete: places').click()
  await expectAccessible(page, 'delete-database')
  expect(complaints).toEqual([])
})

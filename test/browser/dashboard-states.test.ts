// Accessibility and keyboard navigation of the dashboard in unusual states: empty, with one item, in Japanese,
// failing, loading, signed out, and with an invalid chain.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { expectAccessible, tabStops } from '../support/accessibility.ts'
import { dashboards } from '../support/dashboard-page.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { tamper } from '../support/tampered.ts'

const { startNode, openPage } = dashboards()

async function withOneItem(node: LedgerNode): Promise<void> {
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'plum', price: 90, grower: { town: 'Aomori' } })
  await node.send('POST', '/api/fruit/plum', { price: 80, grower: { town: 'Nagano' } })
}

const shown = (page: Page, text: string) => page.getByText(text).first().waitFor()

it('explains the next step in each view of an empty node, and is accessible', async () => {
  const node = await startNode()
  const { page, complaints } = await openPage(node)
  await shown(page, 'There is no database yet. Create the first one.')
  await expectAccessible(page, 'empty-databases')
  await page.goto(`${node.url}/#/ledger`)
  await shown(page, 'Nothing has been recorded yet.')
  await expectAccessible(page, 'empty-ledger')
  await node.send('POST', '/api/fruit')
  await page.goto(`${node.url}/#/db/fruit`)
  await shown(page, 'This database is empty. Add the first item.')
  await expectAccessible(page, 'empty-items')
  await page.goto(`${node.url}/#/db/fruit/never`)
  await shown(page, 'This item has never existed.')
  await expectAccessible(page, 'empty-item')
  expect(complaints).toEqual([])
})

it.each([
  ['en', 'Verify the chain'],
  ['ja', '台帳を検証'],
])('each view of a node with one item is accessible in language %s', async (locale, verify) => {
  const node = await startNode()
  await withOneItem(node)
  const { page, complaints } = await openPage(node, { locale })
  const accessible = (name: string) => expectAccessible(page, name, null, locale === 'en')
  // The page asks for a bounded number of changes, and says that there are more.
  await page.route('**/api/config/diff?from=0&limit=10000', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), more: true } })
  })
  const views = [
    ['databases', '#/', '.rows li'],
    ['items', '#/db/fruit', '.items tbody tr'],
    ['item', '#/db/fruit/plum', '.revisions li'],
    ['past', '#/db/fruit/plum?at=1', '.notice.past'],
    ['changes', '#/changes?from=0', '[role=status] strong'],
    ['ledger', '#/ledger', '.block'],
    ['node', '#/node', '.fact'],
    ['verification', '#/verify', '.checks li'],
  ] as const
  for (const [name, at, wait] of views) {
    await page.goto(`${node.url}/${at}`)
    await page.locator(wait).first().waitFor()
    await accessible(`one-${locale}-${name}`)
  }
  await page.goto(`${node.url}/#/db/fruit?column=price&column=grower.town`)
  await page.locator('table.columns').waitFor()
  for (const at of [0, 1, 2, 3, 4]) await page.locator('summary').nth(at).click()
  await page.locator('.summary tbody tr').waitFor()
  await accessible(`one-${locale}-columns-and-summary`)
  await page.goto(`${node.url}/#/db/fruit/plum`)
  await page.locator('.proof button').nth(1).click()
  await page.locator('.proof .verdict.good').waitFor()
  await accessible(`one-${locale}-proven`)
  await page.locator('.history .head button').click()
  await accessible(`one-${locale}-erase`)
  await page.keyboard.press('Escape')
  await page.goto(`${node.url}/#/verify`)
  await page.getByRole('button', { name: verify, exact: true }).click()
  await page.locator('.verdict.good').waitFor()
  await accessible(`one-${locale}-verified`)
  expect(complaints).toEqual([])
})

it('shows a message if the verification program cannot be loaded', async () => {
  const node = await startNode()
  await withOneItem(node)
  const { page } = await openPage(node, { at: '#/verify' })
  await page.route('**/assets/worker-*.js', (route) => route.fulfill({ status: 404 }))
  await page.getByRole('button', { name: 'Verify the chain' }).click()
  await shown(page, 'The verification program could not be loaded. Reload the page.')
  await expectAccessible(page, 'worker-not-loaded')
  await page.goto(`${node.url}/#/db/fruit/plum`)
  await page.getByRole('button', { name: 'Verify in this browser' }).first().click()
  await shown(page, 'The verification program could not be loaded. Reload the page.')
})

it('shows an invalid chain with a link to the invalid entry, and is accessible', async () => {
  const folder = temporaryFolder()
  const whole = await startLedgerNode({ folder })
  await withOneItem(whole)
  await whole.close()
  tamper(folder, `UPDATE blocks SET body = replace(body, 'Aomori', 'Aomorj') WHERE height = 1`)
  const { page } = await openPage(await startNode({ folder }), { at: '#/verify' })
  await page.getByRole('button', { name: 'Verify the chain' }).click()
  await page.getByRole('link', { name: 'Entry 1.0 is not valid' }).waitFor()
  await expectAccessible(page, 'broken-chain')
})

it('the dashboard is accessible while it shows failures, loading and an expired session', async () => {
  const node = await startNode()
  await withOneItem(node)
  const { page } = await openPage(node)
  await page.route('**/api/fruit?**', (route) =>
    route.fulfill({ status: 500, json: { status: false, code: 'STORE_BROKEN', message: 'no' } }),
  )
  await page.goto(`${node.url}/#/db/fruit`)
  await shown(page, 'That did not work:')
  await expectAccessible(page, 'failure')
  await page.unroute('**/api/fruit?**')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.locator('.items tbody tr').first().waitFor()

  let letGo = () => {}
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route('**/api/fruit?**', async (route) => {
    await held
    await route.continue()
  })
  await page.goto(`${node.url}/#/`)
  await page.getByRole('link', { name: 'fruit', exact: true }).click()
  await shown(page, 'Loading …')
  await expectAccessible(page, 'loading')
  letGo()
  await page.locator('.items tbody tr').first().waitFor()

  await page.route('**/api/**', (route) => route.fulfill({ status: 401, json: { status: false } }))
  await page.route('**/session', (route) => route.fulfill({ status: 401, json: { status: false } }))
  await page.getByRole('link', { name: 'Ledger', exact: true }).click()
  await page.getByText('That did not work: Your session has ended.').waitFor()
  await page.getByRole('button', { name: 'Add item' }).waitFor({ state: 'detached' })
  await expectAccessible(page, 'refused')
})

it('shows the changes that were made while the page was hidden', async () => {
  const node = await startNode()
  await withOneItem(node)
  const { page } = await openPage(node, { at: '#/db/fruit' })
  await page.locator('.items tbody tr').waitFor()
  const becomes = (state: string) =>
    page.evaluate(`
      Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    `)
  await becomes('hidden')
  await node.send('POST', '/api/fruit', { id: 'fig' })
  await node.send('POST', '/api/nuts')
  await becomes('visible')
  await page.getByRole('link', { name: 'fig', exact: true }).waitFor()
})

it('shows why the list of other nodes is missing', async () => {
  const node = await startNode()
  const { page } = await openPage(node)
  const reasons = [
    [500, 'That did not work:'],
    [403, 'This session may not read the list of other nodes.'],
  ] as const
  for (const [status, text] of reasons) {
    await page.route('**/api/config/peers', (route) =>
      route.fulfill({ status, json: { status: false, code: 'STORE_BROKEN', message: 'no' } }),
    )
    await page.goto(`${node.url}/#/node`)
    await page.locator('.peers').getByText(text).waitFor()
  }
})

const HEAD = [
  'a Skip to the content',
  'a daicho',
  'a Databases',
  'a Ledger',
  'a Verification',
  'a Node',
  'a API',
  'select Language',
]

it.each([
  [
    '#/',
    '.rows li',
    ['button New database', 'summary Show an earlier time', 'a fruit', 'button Delete: fruit'],
  ],
  [
    '#/db/fruit',
    '.items tbody tr',
    [
      'a Databases',
      'button Import',
      'button Add item',
      'input Go to an id',
      'select Order',
      'select Per page',
      'summary Filter',
      'summary Columns 2 of 2',
      'summary Indexes',
      'summary Summary',
      'summary Show an earlier time',
      'button Select this page',
      'button Select all matches (1)',
      'button Id',
      'button grower.town',
      'button price',
      'input Select: plum',
      'a plum',
      'button Delete: plum',
      'summary Proof that the list is complete',
      'button Copy: Table',
      'button Save as CSV',
      'button Save as NDJSON',
    ],
  ],
  [
    '#/db/fruit/plum',
    '.revisions li',
    [
      'a Databases',
      'a fruit',
      'pre {',
      'button Copy: JSON of the item',
      'button Delete',
      'button Edit',
      'button Download proof',
      'button Verify in this browser',
      'summary Show an earlier time',
      'button Upload',
      'button Erase former revisions',
      'a Entry 2.0',
      'summary Whole item',
      'summary Compare',
      'summary Proof',
      'a Entry 1.0',
      'summary Whole item',
      'summary Compare',
      'summary Proof',
      'button Restore: 1.0',
      'button Erase: 1.0',
    ],
  ],
  [
    '#/ledger/0',
    '.block',
    ['input Height', 'button Go to height', 'input Database', 'select Method'],
  ],
  ['#/verify', '.checks li', ['button Verify the chain']],
  [
    '#/node',
    '.facts .fact',
    [
      'button Copy: Server id',
      'a Block 2',
      'button Copy: Id of the head',
      'button Copy: Verifier key',
    ],
  ],
])(
  'moves the focus visibly through the elements of %s in reading order',
  async (at, wait, stops) => {
    const node = await startNode()
    await withOneItem(node)
    const { page } = await openPage(node, { at })
    await page.locator(wait).first().waitFor()
    const found = await tabStops(page, 40)
    expect(found.slice(0, HEAD.length + stops.length).map((stop) => stop.split('\n')[0])).toEqual([
      ...HEAD,
      ...stops,
    ])
    expect(found.filter((stop) => stop.endsWith('(not seen)'))).toEqual([])
  },
)

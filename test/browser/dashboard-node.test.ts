// What the page says of its node and of other nodes: who is mirrored, how far, and what is wrong.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildDashboard } from '../../scripts/build-dashboard.ts'
import { launchBrowser } from '../support/browser.ts'
import { openDashboard } from '../support/dashboard-page.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { expectFineLooks } from '../support/looks.ts'

const PEERS = { allowPrivate: true, intervalMs: 20 }

let browser: Browser
beforeAll(async () => {
  await buildDashboard()
  browser = await launchBrowser()
})
afterAll(() => browser.close())

const shown = (page: Page, text: string) => page.getByText(text).first().waitFor()

async function mirror(at: LedgerNode, of: LedgerNode): Promise<void> {
  const peer = { vkey: of.service.log.verifierKey, url: of.url }
  expect((await at.send('POST', '/api/config/peers', peer)).json).toEqual({ status: true })
}

/** The folder of a node as a backup has it: its key, and what it had stored. */
function backupOf(folder: string): string {
  const copy = temporaryFolder()
  for (const name of ['node.key', 'ledger.db']) copyFileSync(join(folder, name), join(copy, name))
  return copy
}

it('other nodes appear, come forward, fail and come back by themselves', async () => {
  const node = await startLedgerNode({ peers: PEERS, dashboard: true })
  const folder = temporaryFolder()
  const other = await startLedgerNode({ folder })
  const { page, complaints, close } = await openDashboard(browser, node, { at: '#/node' })
  await shown(page, 'No other node is mirrored here.')
  await expectFineLooks(page, 'node-alone')

  await other.send('POST', '/api/fruit')
  await mirror(node, other)
  const card = page.locator('.peer')
  await card.getByText('up to date').waitFor()
  await card.getByText('1 block, up to height 0').waitFor()
  await card.getByText(`Node ${other.service.serverId}`).waitFor()
  await card.getByText(other.url).waitFor()
  for (let n = 0; n < 4; n += 1) await other.send('POST', '/api/fruit', { n })
  await card.getByText('5 blocks, up to height 4').waitFor()
  await expectFineLooks(page, 'node-mirrors')

  await other.close()
  await card.getByText('failing').waitFor()
  await card.getByText('(UNREACHABLE)').waitFor()
  await expectFineLooks(page, 'node-failing')
  const back = await startLedgerNode({ folder })
  await mirror(node, back)
  await page.locator('.peer .state.current').waitFor()
  expect(complaints).toEqual([])
  await close()
  await Promise.all([node.close(), back.close()])
})

it('two histories under one key freeze a chain, and every page says so', async () => {
  const node = await startLedgerNode({ peers: PEERS, dashboard: true })
  const folder = temporaryFolder()
  const first = await startLedgerNode({ folder })
  await first.send('POST', '/api/fruit')
  await first.close()
  const twin = await startLedgerNode({ folder: backupOf(folder) })
  const going = await startLedgerNode({ folder })
  await going.send('POST', '/api/fruit', { id: 'fig' })
  await twin.send('POST', '/api/fruit', { id: 'plum' })
  await mirror(node, going)
  const { page, complaints, close } = await openDashboard(browser, node, { at: '#/node' })
  await page.locator('.peer .state.current').waitFor()
  await mirror(node, twin)
  const said = `Node ${going.service.serverId} has signed two histories.`
  await page.locator('.peer .state.frozen').first().waitFor()
  await page.locator('.peer').first().getByText(said).waitFor()
  await page.locator('.peer').first().getByText('What was signed').click()
  const notes = await page.locator('.peer').first().locator('pre').allTextContents()
  expect(notes).toHaveLength(2)
  for (const note of notes) expect(note).toContain(`${going.service.serverId}`)
  expect(notes[0]).not.toBe(notes[1])
  await expectFineLooks(page, 'node-frozen')

  await page.getByRole('link', { name: 'Ledger', exact: true }).click()
  // Once, though the chain comes from two addresses.
  const alert = page.getByRole('alert').getByText(said)
  await alert.waitFor()
  await expectFineLooks(page, 'ledger-alert')
  await page.getByRole('link', { name: 'See the evidence' }).first().click()
  await page.locator('.peer .state.frozen').first().waitFor()
  expect(complaints).toEqual([])
  await close()
  await Promise.all([node, going, twin].map((one) => one.close()))
})

it('a node that takes no changes, because peers have more of its chain, says why', async () => {
  const folder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.close()
  const old = backupOf(folder)
  const keeper = await startLedgerNode({ peers: PEERS })
  const node = await startLedgerNode({ folder })
  await node.send('POST', '/api/fruit', { id: 'fig' })
  await mirror(keeper, node)
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  await expect
    .poll(async () => (await keeper.send('GET', path)).text, { timeout: 10_000 })
    .toContain('\n2\n')
  await node.close()
  const fixed = [{ vkey: keeper.service.log.verifierKey, url: keeper.url }]
  const options = { folder: old, peers: { ...PEERS, fixed }, dashboard: true }
  const returned = await startLedgerNode(options)
  const { page, close } = await openDashboard(browser, returned)
  await page.getByRole('alert').getByText('This node takes no changes now:').waitFor()
  await page.getByRole('alert').getByText('(CHAIN_DOUBTED)').waitFor()
  await expectFineLooks(page, 'doubted')
  await close()
  await Promise.all([returned.close(), keeper.close()])
})

it('a session that may not read the list of nodes still sees its own', async () => {
  const node = await startLedgerNode({ peers: PEERS, dashboard: true })
  const { page, close } = await openDashboard(browser, node)
  await page.route('**/api/config/peers', (route) =>
    route.fulfill({ status: 403, json: { status: false, code: 'SCOPE_MISSING', message: 'no' } }),
  )
  await page.reload()
  await page.getByRole('link', { name: 'Node', exact: true }).click()
  await shown(page, 'This session may not read the list of other nodes.')
  await shown(page, `${node.service.serverId}`)
  await shown(page, 'Verifier key')
  await page.unroute('**/api/config/peers')
  await shown(page, 'No other node is mirrored here.')
  await close()
  await node.close()
})

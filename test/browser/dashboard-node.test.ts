// The dashboard's views of the node and its peers: mirrored chains, their progress and their errors.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { expectAccessible } from '../support/accessibility.ts'
import { runHere } from '../support/command.ts'
import { dashboards } from '../support/dashboard-page.ts'
import { HandClock, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { backupOf, mirror, PEERS } from '../support/peers.ts'

const { startNode, openPage } = dashboards()
const shown = (page: Page, text: string) => page.getByText(text).first().waitFor()

it('shows when peers are added, make progress, fail and recover', async () => {
  const node = await startNode({ peers: PEERS })
  const folder = temporaryFolder()
  const other = await startLedgerNode({ folder })
  const { page, complaints } = await openPage(node, { at: '#/node' })
  await shown(page, 'No other node is mirrored here.')
  await expectAccessible(page, 'node-alone')

  await other.send('POST', '/api/fruit')
  await mirror(node, other)
  const card = page.locator('.peer')
  await card.getByText('up to date').waitFor()
  await card.getByText('1 block, up to height 0').waitFor()
  await card.getByText(`Node ${other.service.serverId}`).waitFor()
  await card.getByText(other.url).waitFor()
  for (let n = 0; n < 4; n += 1) await other.send('POST', '/api/fruit', { n })
  await card.getByText('5 blocks, up to height 4').waitFor()
  await expectAccessible(page, 'node-mirrors')

  await other.close()
  await card.getByText('failing').waitFor()
  await card.getByText('(UNREACHABLE)').waitFor()
  await expectAccessible(page, 'node-failing')
  const back = await startLedgerNode({ folder })
  await mirror(node, back)
  await page.locator('.peer .state.current').waitFor()
  expect(complaints).toEqual([])
  await back.close()
})

it('shows tokens, creates and revokes one, and shows refused requests and the activity of the last 24 hours', async () => {
  const clock = new HandClock(Date.now())
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startNode({ clock, tokens })
  const grant = { subject: 'reporting', scopes: ['db:*:admin'], lifeSeconds: 3_600 }
  const { token } = await issueApiToken(tokens, grant)
  const mine = { 'x-access-token': token }
  await node.send('POST', '/api/fruit', undefined, mine)
  await node.send('POST', '/api/fruit', [{ n: 1 }, { n: 2 }], mine)
  const { page, complaints } = await openPage(node, { at: '#/node' })
  await shown(page, '3 entries in 2 blocks.')
  // A young node has a bar for each minute, in a chart of ten minutes: one for the entries, one for the size.
  const bars = await page.locator('.chart rect').all()
  const widths = await Promise.all(bars.map((bar) => bar.getAttribute('width')))
  expect(widths.map((width) => Number(width) <= 72)).toEqual(bars.map(() => true))
  expect(bars.length).toBeGreaterThan(1)
  const row = page.locator('.token', { hasText: 'reporting' })
  await row.getByText('db:*:admin').waitFor()
  await row.getByText('last used').waitFor()
  const used = await row.locator('time').first().getAttribute('datetime')
  expect(used).toBe(new Date(clock.time).toISOString())
  await expectAccessible(page, 'node-tokens')
  await row.getByRole('button', { name: 'Revoke' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
  await row.getByText('revoked', { exact: true }).waitFor()
  expect((await node.send('GET', '/api/fruit', undefined, mine)).status).toBe(401)

  await page.getByRole('button', { name: 'New token' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Owner, recorded with each change').fill('auditor')
  await dialog.getByLabel('Database', { exact: true }).selectOption('fruit')
  await dialog.getByLabel('Lifetime').selectOption('1')
  await dialog.getByLabel('Read the ledger').check()
  await expectAccessible(page, 'node-new-token')
  await dialog.getByRole('button', { name: 'Create' }).click()
  const notice = page.locator('.notice', { hasText: 'Copy it now' })
  const created = { 'x-access-token': (await notice.locator('code').textContent()) ?? '' }
  expect((await node.send('GET', '/api/fruit', undefined, created)).status).toBe(200)
  expect((await node.send('POST', '/api/fruit', {}, created)).status).toBe(403)
  await page.locator('.token', { hasText: 'auditor' }).getByText('db:fruit:read').waitFor()
  await page.getByRole('button', { name: 'Refresh' }).click()
  const denial = page.getByRole('row', { name: 'SCOPE_MISSING' })
  await denial.getByText('POST /api/fruit').waitFor()
  await denial.getByRole('cell', { name: 'auditor' }).waitFor()
  await expectAccessible(page, 'node-denials')
  // Leaving the view would lose the token.
  let asked = ''
  page.once('dialog', (question) => {
    asked = question.message()
    void question.dismiss()
  })
  await page.getByRole('link', { name: 'Ledger', exact: true }).click()
  await expect.poll(() => asked).toBe('Your changes are not saved. Leave them?')
  await notice.getByRole('button', { name: 'Hide' }).click()
  await notice.waitFor({ state: 'detached' })
  expect(complaints).toEqual([])
})

it('shows each new token, also if the user asks for another one before the first is created', async () => {
  const tokens = await openTokens({ clock: new HandClock(Date.now()), folder: null, secret: null })
  const node = await startNode({ tokens })
  const { page } = await openPage(node, { at: '#/node' })
  const dialog = page.getByRole('dialog')
  const held = Promise.withResolvers<void>()
  await page.route('**/api/config/tokens', async (route) => {
    if (route.request().method() === 'POST') await held.promise
    await route.continue()
  })
  for (const subject of ['first', 'second']) {
    await page.getByRole('button', { name: 'New token' }).click()
    await dialog.getByLabel('Owner, recorded with each change').fill(subject)
    await dialog.getByRole('button', { name: 'Create' }).click()
    if (subject === 'first') await dialog.getByRole('button', { name: 'Cancel' }).click()
  }
  held.resolve()
  for (const subject of ['first', 'second']) {
    await page.locator('.notice', { hasText: 'Copy it now' }).getByText(subject).waitFor()
  }
})

it('shows on every page when the chain was verified, and that a scheduled verification failed', async () => {
  const node = await startNode()
  await node.send('POST', '/api/fruit')
  const { page, complaints } = await openPage(node)
  await shown(page, 'by this browser: not yet')
  const time = Date.parse('2026-11-23T12:00:00Z')
  let verification: object = { result: 'passed', time, last_passed: time }
  await page.route('**/readyz', (route) => route.fulfill({ json: { status: true, verification } }))
  await page.getByText('by the node: Nov 23, 2026').waitFor()
  for (const at of ['#/db/fruit', '#/db/fruit/plum', '#/ledger', '#/verify', '#/node', '#/other']) {
    await page.goto(`${node.url}/${at}`)
    await page.getByText('by the node: Nov 23, 2026').waitFor()
  }
  const later = { last_passed: time, time: Date.parse('2026-11-24T12:00:00Z') }
  verification = { result: 'failed', ...later, finding: 'block 7 has another root' }
  await page.goto(`${node.url}/#/db/fruit`)
  await shown(page, 'The scheduled verification of the node failed: block 7 has another root')
  const line = page.locator('.verified-line')
  const times = line.locator('time')
  await line.getByText('failed: Nov 24, 2026').waitFor()
  expect(await times.first().getAttribute('datetime')).toBe(new Date(time).toISOString())
  await expectAccessible(page, 'verification-failed')
  verification = { result: 'unfinished', time, reason: 'the store is not available' }
  await shown(page, 'The scheduled verification of the node did not finish: the store')
  await line.getByText('by the node: not yet (did not finish: Nov 23, 2026').waitFor()
  await page.goto(`${node.url}/#/verify`)
  await page.getByRole('button', { name: 'Verify the chain' }).click()
  await page.locator('.verdict.good').waitFor()
  expect(await page.getByText('by this browser: not yet').count()).toBe(0)
  expect(complaints).toEqual([])
})

it('shows on the node page and the ledger page that a chain is frozen because its key signed two histories', async () => {
  const node = await startNode({ peers: PEERS })
  const folder = temporaryFolder()
  const first = await startLedgerNode({ folder })
  await first.send('POST', '/api/fruit')
  await first.close()
  const twin = await startLedgerNode({ folder: backupOf(folder) })
  const going = await startLedgerNode({ folder })
  await going.send('POST', '/api/fruit', { id: 'fig' })
  await twin.send('POST', '/api/fruit', { id: 'plum' })
  await mirror(node, going)
  const { page, complaints } = await openPage(node, { at: '#/node' })
  await page.locator('.peer .state.current').waitFor()
  await mirror(node, twin)
  const message = `Node ${going.service.serverId} has signed two histories.`
  await page.locator('.peer .state.frozen').first().waitFor()
  await page.locator('.peer').first().getByText(message).waitFor()
  await page.locator('.peer').first().getByText('Signed notes').click()
  const notes = await page.locator('.peer').first().locator('pre').allTextContents()
  expect(notes).toHaveLength(2)
  for (const note of notes) expect(note).toContain(`${going.service.serverId}`)
  expect(notes[0]).not.toBe(notes[1])
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('.peer').first().getByText('Download evidence.json').click(),
  ])
  expect(download.suggestedFilename()).toBe('evidence.json')
  const verified = await runHere(verifyCommand(), [
    await download.path(),
    '--key',
    going.service.log.verifierKey,
  ])
  expect([verified.code, verified.stdout]).toEqual([
    0,
    expect.stringContaining('two different blocks of height 1 are signed'),
  ])
  await expectAccessible(page, 'node-frozen')

  await page.getByRole('link', { name: 'Ledger', exact: true }).click()
  // Two addresses serve the frozen chain, but the page shows only one alert.
  const alert = page.getByRole('alert').getByText(message)
  await alert.waitFor()
  await expectAccessible(page, 'ledger-alert')
  await page.getByRole('link', { name: 'See the evidence' }).first().click()
  await page.locator('.peer .state.frozen').first().waitFor()
  expect(complaints).toEqual([])
  await Promise.all([going.close(), twin.close()])
})

it('explains that a node rejects changes because peers have a longer copy of its chain', async () => {
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
  await expect.poll(async () => (await keeper.send('GET', path)).text).toContain('\n2\n')
  await node.close()
  const fixed = [{ vkey: keeper.service.log.verifierKey, url: keeper.url }]
  const returned = await startNode({ folder: old, peers: { ...PEERS, fixed } })
  const { page } = await openPage(returned)
  await page.getByRole('alert').getByText('This node accepts no changes at the moment:').waitFor()
  await page.getByRole('alert').getByText('(CHAIN_DOUBTED)').waitFor()
  await expectAccessible(page, 'doubted')
  await keeper.close()
})

it('a session without access to the list of peers still shows the node itself', async () => {
  const node = await startNode({ peers: PEERS })
  const { page } = await openPage(node)
  await page.clock.install()
  await page.route('**/api/config/peers', (route) =>
    route.fulfill({ status: 403, json: { status: false, code: 'SCOPE_MISSING', message: 'no' } }),
  )
  await page.reload()
  await page.getByRole('link', { name: 'Node', exact: true }).click()
  await shown(page, 'This session may not read the list of other nodes.')
  await shown(page, `${node.service.serverId}`)
  await shown(page, 'Verifier key')
  await page.unroute('**/api/config/peers')
  // The page asks again after half a minute.
  await page.clock.runFor(40_000)
  await shown(page, 'No other node is mirrored here.')
})

it('shows dates in a browser without a configured locale', async () => {
  const node = await startNode()
  await node.send('POST', '/api/fruit')
  const { page, complaints } = await openPage(node, { at: '#/ledger' })
  await page.addInitScript(
    "Object.defineProperty(navigator, 'languages', { value: ['en-US@posix'] })",
  )
  await page.reload()
  await page.getByText('1 block').waitFor()
  expect(complaints).toEqual([])
})

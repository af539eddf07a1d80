// Signing in to the dashboard at the issuer oidc-provider, in Chromium.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { buildDashboard } from '../../scripts/build-dashboard.ts'
import { expectAccessible } from '../support/accessibility.ts'
import { launchBrowser } from '../support/browser.ts'
import { acceptTokens, startIssuer } from '../support/issuer.ts'
import { CREDENTIALS, type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'
import { type RealIssuer, startRealIssuer } from '../support/real-issuer.ts'

/** Time limit of each step. */
const WAIT_MS = 60_000
const RULES = JSON.stringify([
  {
    claim: 'sub',
    value: 'alice',
    scopes: ['db:*:admin', 'ledger:read', 'node:metrics', 'node:sync', 'node:admin'],
  },
])

let browser: Browser
beforeAll(async () => {
  await buildDashboard()
  browser = await launchBrowser()
})
afterAll(() => browser.close())

async function startSignInNode(): Promise<{ node: LedgerNode; issuer: RealIssuer }> {
  const clock = { now: () => Date.now() }
  let dashboard: string | null = null
  const issuer = await startRealIssuer(() => dashboard)
  const stub = { ...(await startIssuer()), url: issuer.url, clock: clock as never }
  const { tokens, refresh } = await acceptTokens([stub], { rules: RULES })
  const signIn = { clientId: 'dashboard', parameters: '', find: () => tokens.findSignInOffer() }
  const node = await startLedgerNode({ dashboard: true, clock, tokens, signIn })
  dashboard = `${node.url}/`
  await refresh()
  onTestFinished(() => node.close())
  return { node, issuer }
}

async function openPage(address: string, credentials = false, locale = 'en') {
  const { name: username, password } = CREDENTIALS
  const context = await browser.newContext({
    locale,
    ...(credentials ? { httpCredentials: { username, password } } : {}),
  })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(WAIT_MS)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  await page.addInitScript({
    content: `addEventListener('securitypolicyviolation', ({ violatedDirective }) =>
      console.error('policy: ' + violatedDirective))`,
  })
  page.on('console', (line) => {
    if (line.text().startsWith('policy:')) complaints.push(line.text())
  })
  await page.clock.install()
  await page.goto(address)
  return { page, complaints }
}

/** Completes the pages of the issuer. */
async function signInAtIssuer(page: Page, issuer: RealIssuer, login: string): Promise<void> {
  await page.getByRole('button', { name: `Sign in with ${new URL(issuer.url).host}` }).click()
  await page.locator('input[name=login]').fill(login)
  await page.locator('input[name=password]').fill('any')
  await page.locator('button[type=submit]').click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

it('lets a person sign in, records the person as the author, verifies the chain, and keeps no token in the browser', async () => {
  const { node, issuer } = await startSignInNode()
  const { page, complaints } = await openPage(`${node.url}/#/ledger`)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await signInAtIssuer(page, issuer, 'alice')
  await page.getByRole('heading', { name: 'Ledger' }).waitFor()
  expect(page.url()).toBe(`${node.url}/#/ledger`)
  await page.goto(`${node.url}/#/`)
  await page.getByRole('button', { name: 'New database' }).click()
  await page.getByLabel('Name').fill('fruit')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'fruit' }).waitFor()
  const reader = { authorization: `Bearer ${await issuer.token('ledger:read')}` }
  const path = `/api/ledgers?serverid=${node.service.serverId}`
  const { ledgers } = (await node.send('GET', path, undefined, reader)).json
  expect(ledgers[0].body[0].by).toEqual({ iss: issuer.url, sub: 'alice' })

  await page.goto(`${node.url}/#/verify`)
  await page.getByRole('button', { name: 'Verify the chain' }).click()
  await page.locator('.verdict.good').waitFor()
  const kept = await page.evaluate(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  expect(kept).not.toMatch(/eyJ|"verifier"|sign-in/)
  expect(complaints).toEqual([])

  // The session goes on after the issuer could not be reached.
  const tokens = `${issuer.url}/token`
  await page.route(tokens, (route) => route.abort())
  const failed = page.waitForRequest(tokens)
  await page.clock.fastForward('04:01')
  await failed
  await page.unroute(tokens)
  const again = page.waitForResponse(tokens)
  await page.clock.fastForward('00:30')
  expect((await again).status()).toBe(200)
  await page.getByText('The node does not answer.').waitFor({ state: 'detached' })
  expect(await page.getByText('Your session has ended.').count()).toBe(0)

  // The page renews its token a minute before it expires.
  const renewed = page.waitForResponse(`${issuer.url}/token`)
  await page.clock.fastForward('04:01')
  expect((await renewed).status()).toBe(200)
  await page.goto(`${node.url}/#/`)
  await page.getByRole('link', { name: 'fruit' }).first().waitFor()

  // A page that is loaded again asks again.
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
})

it('refuses a code and an error that the page has not asked for, and shows the error of the issuer', async () => {
  const { node } = await startSignInNode()
  const { page } = await openPage(`${node.url}/?code=stolen&state=other`)
  await page.getByText('this page did not start this sign-in; sign in again').waitFor()
  expect(page.url()).toBe(`${node.url}/`)
  const text = encodeURIComponent(`<b>р\u0430y \u202etoday ${'x'.repeat(100)}`)
  const failed = `${node.url}/?error=access_denied&error_description=${text}&state=x`
  await page.goto(failed)
  await page.getByText('this page did not start this sign-in; sign in again').waitFor()
  const start = `sessionStorage.setItem('daicho sign-in', '{"state":"x"}')`
  await page.evaluate(start)
  await page.goto(failed)
  await page.getByText('<b>\\u{440}\\u{430}y \\u{202e}today').waitFor()
  await expectAccessible(page, 'sign-in-failed')
  const { page: japanese } = await openPage(node.url, false, 'ja')
  await japanese.evaluate(start)
  await japanese.goto(failed)
  await japanese.getByText('\\u{202e}today').waitFor()
  await expectAccessible(japanese, 'sign-in-failed-ja', null, false)
})

it('also accepts the name and the password of the node', async () => {
  const { node } = await startSignInNode()
  const { page } = await openPage(node.url, true)
  await page.getByRole('button', { name: 'Use a name and a password' }).click()
  await page.getByRole('heading', { name: 'Databases' }).waitFor()
  const plain = await fetch(`${node.url}/session`, { method: 'POST' })
  expect([plain.status, plain.headers.get('www-authenticate')]).toEqual([
    401,
    'Basic realm="daicho", charset="UTF-8"',
  ])
})

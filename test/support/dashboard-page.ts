import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { CREDENTIALS, type LedgerNode } from './ledger-node.ts'

/** A page of the dashboard, and everything that it should not have done. */
export interface DashboardPage {
  readonly page: Page
  /** Errors of the page, breaches of its policy, requests to other addresses. */
  readonly complaints: string[]
  close(): Promise<void>
}

/** Opens the dashboard of `node` in a browser of its own, signed in, and waits until it is there. */
export async function openDashboard(
  browser: Browser,
  node: Pick<LedgerNode, 'url'>,
  options: BrowserContextOptions & { readonly at?: string } = {},
): Promise<DashboardPage> {
  const { at = '', ...rest } = options
  const context = await browser.newContext({
    httpCredentials: { username: CREDENTIALS.name, password: CREDENTIALS.password },
    locale: 'en',
    ...rest,
  })
  const complaints: string[] = []
  const page = await context.newPage()
  page.setDefaultTimeout(10_000)
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  page.on('console', (line) => {
    if (line.type() === 'error' && !/status of (401|4\d\d)/.test(line.text())) {
      complaints.push(`console: ${line.text()}`)
    }
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(`${node.url}/`)) complaints.push(`fetched ${request.url()}`)
  })
  await page.addInitScript({
    content: `addEventListener('securitypolicyviolation', ({ violatedDirective }) =>
      console.error('policy: ' + violatedDirective))`,
  })
  await page.goto(`${node.url}/${at}`)
  await page.locator('main h1').waitFor()
  return { page, complaints, close: () => context.close() }
}

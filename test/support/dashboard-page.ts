import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { buildDashboard } from '../../scripts/build-dashboard.ts'
import { launchBrowser } from './browser.ts'
import {
  CREDENTIALS,
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
} from './ledger-node.ts'
import { WAIT_MS } from './until.ts'

/** A page of the dashboard that records errors. */
export interface DashboardPage {
  readonly page: Page
  /** Errors of the page, violations of its policy, and requests to other hosts. */
  readonly complaints: string[]
  close(): Promise<void>
}

/** Options of a page. `at` is the view to open, for example `#/node`. */
type PageOptions = BrowserContextOptions & { readonly at?: string }

/** Starts nodes with the dashboard, and opens pages of the dashboard. Nodes and pages are closed after the test. */
export interface Dashboards {
  startNode(options?: LedgerNodeOptions): Promise<LedgerNode>
  openPage(node: LedgerNode, options?: PageOptions): Promise<DashboardPage>
}

/** Starts the browser that all tests of a file share. Call this once in a file. */
export function dashboards(): Dashboards {
  let browser: Browser
  beforeAll(async () => {
    await buildDashboard()
    browser = await launchBrowser()
  })
  afterAll(() => browser.close())
  return {
    async startNode(options = {}) {
      const node = await startLedgerNode({ dashboard: true, ...options })
      onTestFinished(() => node.close())
      return node
    },
    async openPage(node, options) {
      const page = await openDashboard(browser, node, options)
      onTestFinished(() => page.close())
      return page
    },
  }
}

/** Opens the dashboard of `node` in a new browser context with credentials, and waits until the page is ready. */
export async function openDashboard(
  browser: Browser,
  node: Pick<LedgerNode, 'url'>,
  options: PageOptions = {},
): Promise<DashboardPage> {
  const { at = '', ...rest } = options
  const context = await browser.newContext({
    httpCredentials: { username: CREDENTIALS.name, password: CREDENTIALS.password },
    locale: 'en',
    ...rest,
  })
  const complaints: string[] = []
  const page = await context.newPage()
  page.setDefaultTimeout(WAIT_MS)
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

/** Replaces the JSON in the editor of the page, as a user who selects everything and pastes. */
export async function writeJson(page: Page, text: string): Promise<void> {
  await page.getByLabel('JSON of the item').click()
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText(text)
}

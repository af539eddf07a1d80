// Creates the screenshot of the dashboard for the documentation: `node scripts/dashboard-picture.ts`. Starts a node in
// memory with a few items of a shop, and opens the dashboard in the browser of the tests.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'
import { launchBrowser } from '../test/support/browser.ts'
import { openDashboard } from '../test/support/dashboard-page.ts'
import { HandClock, startLedgerNode } from '../test/support/ledger-node.ts'
import { buildDashboard } from './build-dashboard.ts'

const PICTURE = fileURLToPath(new URL('../docs/images/dashboard.png', import.meta.url))
const MINUTE_MS = 60_000

await buildDashboard()
const clock = new HandClock(Date.parse('2026-11-20T09:12:00Z'))
const node = await startLedgerNode({ dashboard: true, clock })
const changes: readonly (readonly [string, string, unknown?])[] = [
  ['POST', '/api/fruit'],
  ['POST', '/api/fruit', { id: 'plum', name: 'Plum', price: 90, grower: { town: 'Aomori' } }],
  ['POST', '/api/fruit', { id: 'pear', name: 'Pear', price: 120, tags: ['late'] }],
  ['PATCH', '/api/fruit/plum', { price: 85 }],
  ['PATCH', '/api/fruit/plum', { price: 80, grower: { town: 'Nagano' }, tags: ['stone'] }],
]
for (const [method, path, body] of changes) {
  clock.time += MINUTE_MS
  await node.send(method, path, body)
}
const browser = await launchBrowser()
const { page } = await openDashboard(browser, node, {
  at: '#/db/fruit/plum',
  viewport: { width: 1120, height: 1180 },
  colorScheme: 'light',
  reducedMotion: 'reduce',
  timezoneId: 'UTC',
})
await page.locator('.revisions li').nth(2).waitFor()
await page.getByRole('button', { name: 'Verify in this browser' }).first().click()
await page.locator('.proof .verdict.good').waitFor()
const shot = await page.screenshot()
// The number of colours is reduced, because this halves the size of the file without a visible difference.
writeFileSync(PICTURE, await sharp(shot).png({ palette: true, colours: 128 }).toBuffer())
await browser.close()
await node.close()
console.log(`written: ${PICTURE}`)

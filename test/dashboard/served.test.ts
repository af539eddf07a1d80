// How a node serves the dashboard: credentials, size, caching and Content-Security-Policy.
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildDashboard } from '../../scripts/build-dashboard.ts'
import { basic } from '../support/basic.ts'
import { CREDENTIALS, type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'

const { name, password } = CREDENTIALS
const RIGHT = basic(name, password)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const KILOBYTE = 1_000

let node: LedgerNode
let assets: string[]
beforeAll(async () => {
  await buildDashboard()
  node = await startLedgerNode({ dashboard: true })
  const { text } = await node.send('GET', '/', undefined, RIGHT)
  assets = [...text.matchAll(/(?:src|href)="\.(\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
})
afterAll(() => node.close())

it('serves nothing without credentials', async () => {
  expect(assets.length).toBeGreaterThan(2)
  for (const path of ['/', ...assets]) {
    expect([path, (await node.send('GET', path)).status]).toEqual([path, 401])
    expect([path, (await node.send('HEAD', path)).status]).toEqual([path, 401])
    const { status, headers } = await node.send('GET', path, undefined, RIGHT)
    expect([path, status]).toEqual([path, 200])
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    )
    expect(headers.get('x-content-type-options')).toBe('nosniff')
  }
})

it('serves files with a hash in their names as immutable, and requires revalidation of the page', async () => {
  const packed = { ...RIGHT, 'accept-encoding': 'gzip' }
  for (const path of ['/', ...assets]) {
    const { headers } = await node.send('HEAD', path, undefined, packed)
    const etag = headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]{22}-gzip"$/)
    expect(headers.get('cache-control')).toBe(
      path === '/' ? 'private, no-cache' : 'private, max-age=31536000, immutable',
    )
    const again = { ...packed, 'if-none-match': etag }
    const cached = await node.send('GET', path, undefined, again)
    expect([cached.status, cached.text]).toEqual([304, ''])
    const other = await node.send('GET', path, undefined, { ...RIGHT, 'if-none-match': '"x"' })
    expect(other.status).toBe(200)
  }
})

it('the page without its editor is less than 150 kB compressed, and is sent compressed', async () => {
  const { text: page } = await node.send('GET', '/', undefined, RIGHT)
  expect(page).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=|https?:/)
  const files = new Set(assets)
  for (const path of files) {
    const { text } = await node.send('GET', path, undefined, RIGHT)
    // Adds the scripts that this script loads later: the verification worker and the editor.
    for (const [, later = ''] of text.matchAll(/["'`/]([\w-]+-[\w-]{8}\.js)/g)) {
      files.add(`/assets/${later}`)
    }
  }
  const sizes = new Map<string, number>()
  for (const path of files) {
    // Fetch accepts gzip, and decompresses the reply.
    const reply = await fetch(node.url + path, { headers: RIGHT })
    expect(reply.headers.get('content-encoding')).toBe('gzip')
    const text = await reply.text()
    // The file must not contain the path of the build folder.
    expect(text).not.toContain(ROOT)
    sizes.set(path.replace(/-[\w-]{8}\./, '.'), gzipSync(text).length)
  }
  const { '/assets/code-editor.js': editor = 0, ...others } = Object.fromEntries(sizes)
  expect(editor).toBeGreaterThan(0)
  expect(editor).toBeLessThan(150 * KILOBYTE)
  expect(Object.keys(others)).toContain('/assets/worker.js')
  const bytes = Object.values(others).reduce((sum, length) => sum + length, 0)
  expect(bytes).toBeLessThan(150 * KILOBYTE)
  const plain = { ...RIGHT, 'accept-encoding': 'identity' }
  const { headers } = await node.send('GET', [...files][0] ?? '', undefined, plain)
  expect(headers.get('content-encoding')).toBe(null)
})

it('shows links to the API if the dashboard was not built', async () => {
  const bare = await startLedgerNode()
  const { status, text } = await bare.send('GET', '/', undefined, RIGHT)
  expect([status, text.includes('href="/doc"')]).toEqual([200, true])
  await bare.close()
})

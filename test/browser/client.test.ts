// Runs the file of the package `@daicho/client` in a browser, without a bundler. The test server serves the page and, like a proxy, forwards requests to the
// node, so the page and the node have the same origin.
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { buildClient } from '../../scripts/build-client.ts'
import { launchBrowser } from '../support/browser.ts'
import { type LedgerNode, startLedgerNode } from '../support/ledger-node.ts'

const EVENT =
  'id: 3.0\nevent: entry\ndata: {"position":"3.0","timestamp":1,"entry":{"serverid":1,"method":"create_db","db":"台"}}\n\n'

const PAGE = '<!doctype html><title>x</title>'
const CLIENT = new URL('../../clients/typescript/dist/index.js', import.meta.url)

/** Returns the proof file with an item that differs from the proven item. */
function withOtherItem(file: string): string {
  return file.replace(/^extra (\S+)$/m, (_, encoded: string) => {
    const extra = Buffer.from(encoded, 'base64').toString().replace('"n":2', '"n":3')
    return `extra ${Buffer.from(extra).toString('base64')}`
  })
}

/** Serves a page, the client and a change feed with one event, and forwards other requests to the node. */
async function answer(
  node: LedgerNode,
  request: IncomingMessage,
  response: ServerResponse,
  lies: boolean,
) {
  const path = request.url ?? ''
  if (path === '/page') {
    response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE)
  } else if (path === '/client.js') {
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(readFileSync(CLIENT))
  } else if (path.includes('/changes')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(EVENT)
  } else {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const body = parts.length === 0 ? undefined : Buffer.concat(parts).toString()
    const reply = await node.send(request.method ?? '', path, body)
    const { status, headers } = reply
    response.writeHead(
      status,
      Object.fromEntries(
        ['etag', 'ledger-position', 'content-type'].flatMap((name) => {
          const value = headers.get(name)
          return value === null ? [] : [[name, value]]
        }),
      ),
    )
    response.end(lies ? withOtherItem(reply.text) : reply.text)
  }
}

it('the client works in a browser as it does in Node', async () => {
  await buildClient()
  const node = await startLedgerNode()
  // From the first request to `/lie` on, replies contain proof files with a changed item.
  let lies = false
  const server = createServer((request, response) => {
    lies ||= request.url === '/lie'
    void answer(node, request, response, lies)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const browser = await launchBrowser()
  onTestFinished(async () => {
    await browser.close()
    server.closeAllConnections()
    server.close()
    await node.close()
  })
  const { port } = server.address() as AddressInfo
  const page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${port}/page`)
  const seen = await page.evaluate(`(async () => {
    const { LedgerClient, ClientError } = await import('/client.js')
    const ledger = new LedgerClient(location.origin)
    await ledger.createDatabase('fruit')
    const fruit = ledger.database('fruit')
    const written = await fruit.create({ id: '台', n: 1 })
    await fruit.patch('台', { n: 2 })
    const items = []
    for await (const item of fruit.query({ pageSize: 1 })) items.push(item)
    const refused = await fruit.create({ id: '台' }).catch((error) => [error instanceof ClientError, error.code])
    const changes = []
    for await (const change of ledger.changes()) { changes.push(change.entry.db); break }
    const verify = {
      key: (await (await fetch('/api/ledgers/' + (await ledger.serverId()) + '/vkey')).text()).trim(),
      checkpoint: {
        get: () => localStorage.getItem('checkpoint'),
        set: (note) => localStorage.setItem('checkpoint', note),
      },
    }
    const read = async () =>
      (await new LedgerClient(location.origin, { verify }).database('fruit').read('台'))?.item
    const proven = await read()
    await fetch('/lie')
    const caught = await read().catch((error) => [error.name, error.code])
    return { position: written.position, items, refused, changes, proven, caught }
  })()`)
  expect(seen).toEqual({
    position: '1.0',
    items: [{ id: '台', n: 2 }],
    refused: [true, 'ITEM_EXISTS'],
    changes: ['台'],
    proven: { id: '台', n: 2 },
    caught: ['VerificationError', 'PROOF_WRONG'],
  })
})

// Names with a newline. The node sends changes to the writer thread as lines of text. Before a fix, the part after
// the newline was another change, so `DELETE /api/a%0Ad` deleted the database `a`.
import { expect, it } from 'vitest'
import { startLedgerNode } from './support/ledger-node.ts'

it('a newline in a name never starts another change, on any path and in any body', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/a')
  await node.send('POST', '/api/a', { id: 'x', n: 1 })
  const { serverid } = (await node.send('GET', '/api/serverid')).json
  const chain = async () => (await node.send('GET', `/api/ledgers?serverid=${serverid}`)).text
  const before = await chain()

  const name = 'a\nX\na'
  const inPath = encodeURIComponent(name)
  const requests: [string, string, unknown?][] = [
    ['POST', `/api/${inPath}`],
    ['POST', `/api/${inPath}`, { n: 1 }],
    ['POST', `/api/${inPath}`, [{ n: 1 }]],
    ['DELETE', `/api/${inPath}`],
    ['DELETE', '/api/a%0Ad'],
    ['POST', `/api/a/${inPath}`, { n: 1 }],
    ['PATCH', `/api/a/${inPath}`, { n: 1 }],
    ['DELETE', `/api/a/${inPath}`],
    ['DELETE', '/api/a/x%0A1%0AX%0Aa'],
    ['POST', `/api/${inPath}/x`, { n: 1 }],
    ['PATCH', `/api/${inPath}/x`, { n: 1 }],
    ['DELETE', `/api/${inPath}/x`],
    ['POST', '/api/a', { id: name }],
  ]
  for (const entry of [
    { method: 'create_db', db: name },
    { method: 'delete_db', db: name },
    { method: 'create_item', db: name, item: {} },
    { method: 'create_item', db: 'a', item: { id: name } },
    { method: 'update_item', db: name, item: { id: 'x' } },
    { method: 'update_item', db: 'a', item: { id: name } },
    { method: 'delete_item', db: name, id: 'x' },
    { method: 'delete_item', db: 'a', id: name },
  ]) {
    requests.push(['POST', '/api/ledgers', { entries: [entry] }])
  }
  for (const [method, path, body] of requests) {
    const reply = await node.send(method, path, body)
    expect([method, path, reply.status]).toEqual([method, path, 400])
    expect(reply.json.code).toMatch(/^(DATABASE_NAME|ITEM_ID)_INVALID$/)
  }

  expect(await chain()).toBe(before)
  expect((await node.send('GET', '/readyz')).status).toBe(200)
  await node.close()
})

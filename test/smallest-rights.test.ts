// A token for one database sees nothing of another.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { dumpCommand } from '../src/cli/commands/dump.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { runHere } from './support/command.ts'
import { HandClock, type LedgerNode, startLedgerNode } from './support/ledger-node.ts'

const clock = new HandClock()
/** Part of every name, id, content, author and reason of the other databases. */
const SECRET = 'zebra'

async function startFilled() {
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens })
  const tokenFor = async (subject: string, scopes: readonly string[]) =>
    (await issueApiToken(tokens, { subject, scopes, lifeSeconds: 3_600 })).token
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const admin = bearer(await tokenFor('admin', ['db:*:admin']))
  const other = {
    ...bearer(await tokenFor(`${SECRET} keeper`, ['db:*:admin'])),
    'ledger-reason': `${SECRET} reason`,
  }
  const send = (path: string, body: unknown, headers: Record<string, string>, method = 'POST') =>
    node.send(method, path, body, headers)
  for (const db of [`${SECRET}1`, `${SECRET}2`]) await send(`/api/${db}`, undefined, other)
  await send('/api/fruit', undefined, admin)
  for (let n = 0; n < 6; n += 1) {
    await send('/api/fruit', { id: `plum${n}`, n }, admin)
    await send(`/api/${SECRET}1`, { id: `${SECRET}${n}`, text: SECRET }, other)
    const both = [
      { method: 'create_item', db: `${SECRET}2`, item: { text: SECRET } },
      { method: 'create_item', db: 'fruit', item: { id: `fig${n}` }, reason: 'fresh' },
    ]
    await send('/api/ledgers', { entries: both }, admin)
  }
  const type = { ...other, 'content-type': 'text/plain' }
  await send(`/api/${SECRET}1/${SECRET}0/attachments/${SECRET}`, SECRET, type, 'PUT')
  await send(`/api/${SECRET}2`, undefined, other, 'DELETE')
  return { node, token: await tokenFor('reader', ['db:fruit:read']) }
}

/** Sends a request and reads at most the first 200 ms of a stream. */
async function textOf(node: LedgerNode, path: string, token: string): Promise<string> {
  const controller = new AbortController()
  const headers = { authorization: `Bearer ${token}` }
  let text = ''
  try {
    const reply = await fetch(node.url + path, { headers, signal: controller.signal })
    text = JSON.stringify([...reply.headers])
    const isStream = reply.headers.get('content-type')?.startsWith('text/event-stream') === true
    if (isStream) setTimeout(() => controller.abort(), 200)
    for await (const part of reply.body ?? []) text += Buffer.from(part).toString()
  } catch (error) {
    if (!controller.signal.aborted) throw error
  }
  return text
}

const name = fc.constantFrom('fruit', `${SECRET}1`, `${SECRET}2`, 'none', '*')
const query = fc
  .record(
    {
      db: fc.array(name, { maxLength: 2 }),
      from: fc.constantFrom('0', '3', '2020-01-01', '9999-01-01'),
      to: fc.constantFrom('5', '2030-01-01'),
      by: fc.constantFrom('admin', `${SECRET} keeper`),
      iss: fc.constantFrom('', 'x'),
      since: fc.constantFrom('start', '2.0'),
      proof: fc.constantFrom('1', '0'),
      offset: fc.constantFrom('0', '4'),
      filter: fc.constant('{"where":{}}'),
      count: fc.constant('1'),
      docs: fc.constant('1'),
    },
    { requiredKeys: [] },
  )
  .map(({ db = [], ...others }) => {
    const parameters = new URLSearchParams(others)
    for (const one of db) parameters.append('db', one)
    return parameters
  })
const paths = (serverId: number) =>
  fc.oneof(
    fc.constantFrom(
      '/api/dbs',
      '/metrics',
      '/api/config/tokens',
      '/api/config/activity',
      '/api/config/aggregate',
    ),
    fc.constantFrom(
      ...['changes', 'checkpoint', 'tile/entries/0', 'attachments'].map(
        (end) => `/api/ledgers/${serverId}/${end}`,
      ),
    ),
    fc.constant('/api/ledgers'),
    fc
      .tuple(
        name,
        fc.constantFrom('', '/plum0', `/${SECRET}0`),
        fc.constantFrom('', '/history', '/proof', '/attachments'),
      )
      .map(([db, id, end]) => `/api/${db}${id}${end}`),
  )

it('a token for one database sees nothing of another in feeds, lists of blocks, proofs, histories and metrics', async () => {
  const { node, token } = await startFilled()
  const serverid = node.service.serverId
  await fc.assert(
    fc.asyncProperty(paths(serverid), query, async (path, parameters) => {
      if (path === '/api/ledgers') parameters.set('serverid', `${serverid}`)
      const text = await textOf(node, `${path}?${parameters}`, token)
      // A refusal repeats names of the request.
      const sent = [...path.split('/'), ...parameters.values()].filter((part) => part !== '')
      sent.sort((one, other) => other.length - one.length)
      const seen = sent.reduce((rest, part) => rest.replaceAll(part, ''), text)
      expect(seen).not.toContain(SECRET)
    }),
    { numRuns: 150 },
  )
  const own = await textOf(node, `/api/ledgers/${serverid}/changes?db=fruit&from=0`, token)
  expect(own.match(/"method":"create_item"/g)).toHaveLength(12)
  const blocks = await textOf(node, `/api/ledgers?serverid=${serverid}&db=fruit`, token)
  expect(blocks.match(/"method":"create_item"/g)).toHaveLength(12)
  await node.close()
})

it('dumps a database of a running node with a token for this database alone', async () => {
  const { node, token } = await startFilled()
  const dump = await runHere(dumpCommand(), ['fruit', '--url', node.url, '--token', token])
  expect([dump.code, dump.stdout.split('\n').length]).toEqual([0, 13])
  const other = await runHere(dumpCommand(), [`${SECRET}1`, '--url', node.url, '--token', token])
  expect([other.code, other.stdout]).toEqual([1, ''])
  await node.close()
})

it('the feed follows one author', async () => {
  const { node } = await startFilled()
  await node.close()
  const open = await startLedgerNode()
  await open.send('POST', '/api/fruit')
  const path = `/api/ledgers/${open.service.serverId}/changes`
  const by = await textOf(open, `${path}?since=start&by=nobody`, 'none')
  expect(by).not.toContain('event: entry')
  expect(await textOf(open, `${path}?since=start`, 'none')).toContain('event: entry')
  for (const range of [
    'from=x',
    'to=2026-13-01',
    'from=-1',
    'from=2026-02-30T',
    'from=2026-02-30',
  ]) {
    const { status, json } = await open.send('GET', `${path}?${range}`)
    expect([range, status, json.code]).toEqual([range, 400, 'RANGE_INVALID'])
  }
  await open.close()
})

// A token for one database sees nothing of another.
// SMALLEST_RIGHTS_RUNS=15000 runs the long version.
import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { dumpCommand } from '../src/cli/commands/dump.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { runHere } from './support/command.ts'
import { type FuzzRequest, requestsOf } from './support/fuzz.ts'
import { HandClock, type LedgerNode, startLedgerNode } from './support/ledger-node.ts'
import { roundsOf } from './support/rounds.ts'

const clock = new HandClock()
const RUNS = Number(process.env.SMALLEST_RIGHTS_RUNS ?? roundsOf(150))
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
  await send('/api/herb', undefined, admin)
  await send('/api/herb', [{ id: 'plum0' }, { id: 'fig0' }], admin)
  const token = await tokenFor('reader', ['db:fruit:read'])
  return { node, token, gardener: await tokenFor('gardener', ['db:herb:admin']) }
}

/** Sends a request and reads at most the first 200 ms of a stream. */
async function replyTo(
  node: LedgerNode,
  { method, path, headers, body }: FuzzRequest,
  token: string,
): Promise<{ status: number; text: string }> {
  const controller = new AbortController()
  let [status, text] = [0, '']
  try {
    const reply = await fetch(node.url + path, {
      ...{ method, signal: controller.signal, body: body.length === 0 ? null : Buffer.from(body) },
      headers: { ...headers, authorization: `Bearer ${token}` },
    })
    status = reply.status
    const isStream = reply.headers.get('content-type')?.startsWith('text/event-stream') === true
    if (isStream) setTimeout(() => controller.abort(), 200)
    for await (const part of reply.body ?? []) text += Buffer.from(part).toString()
  } catch (error) {
    if (!controller.signal.aborted) throw error
  }
  return { status, text }
}

async function textOf(node: LedgerNode, path: string, token: string): Promise<string> {
  const request = { method: 'GET', path, headers: {}, body: Buffer.of() }
  return (await replyTo(node, request, token)).text
}

/** Returns `text` with its percent-encoded and its base64 parts also decoded, as far as they are ASCII. */
function decoded(text: string): string {
  const plain = text.replaceAll(/%([2-7][0-9a-f])/gi, (_, code) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
  const packed = text.match(/[\w+/-]{16,}={0,2}/g) ?? []
  return [plain, ...packed.map((part) => Buffer.from(part, 'base64').toString('latin1'))].join(' ')
}

/** Values of parameters and of members of bodies, by name. */
const known = {
  token: fc.constant(''),
  db: fc.constantFrom('fruit', 'fruit', 'fruit', 'herb', `${SECRET}1`, `${SECRET}2`, 'none', '*'),
  id: fc.constantFrom('plum0', 'fig0', `${SECRET}0`),
  name: fc.constantFrom('a', SECRET),
  ids: fc.constantFrom<unknown>(['plum0'], [`${SECRET}0`]) as fc.Arbitrary<string>,
  at: fc.constantFrom('5', '2027-01-15T08:00:00Z'),
  from: fc.constantFrom('0', '3', '2020-01-01'),
  to: fc.constantFrom('5', '2030-01-01'),
  by: fc.constantFrom('admin', `${SECRET} keeper`),
  iss: fc.constantFrom('', 'x'),
  since: fc.constantFrom('start', '2.0'),
  position: fc.constantFrom('3.0', '4.0', '6.0'),
  sha256: fc.constant(hash('sha256', SECRET, 'hex')),
  filter: fc.constant('{"where":{}}'),
  proof: fc.constantFrom('1', '0'),
  current: fc.constantFrom('1', '0'),
  '*': fc.constantFrom('0/000', 'entries/000', 'entries/000.p/20'),
}

/** A name that nobody uses, as long as SECRET, and equal to it if a message cuts it off. */
const UNUSED = 'zebrb'
const other = (text: string) => text.replaceAll(SECRET, UNUSED)

it('a token for one database sees nothing of another, in no documented request', async () => {
  const { node, token, gardener } = await startFilled()
  const { json } = await node.send('GET', '/doc/json')
  const serverid = fc.constant(`${node.service.serverId}`)
  const reads = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        { weight: 4, arbitrary: requestsOf(json, { ...known, serverid }, true) },
        requestsOf(json, { ...known, serverid }),
      ),
      fc.boolean(),
      async (request, isReader) => {
        const sent = `${request.path} ${request.body}`
        const bearer = isReader ? token : gardener
        const reply = await replyTo(node, request, bearer)
        const { path, body } = request
        if (!decoded(sent).includes(SECRET)) {
          // The gardener may have written the text into his own database.
          if (isReader) expect(decoded(reply.text)).not.toContain(SECRET)
        } else if (isReader || !decoded(sent).includes('herb')) {
          // A refusal may repeat names of the request, so it must be the refusal of a name that nobody uses.
          const changed = {
            path: other(path),
            body: Buffer.from(other(body.toString('latin1')), 'latin1'),
          }
          const same = await replyTo(node, { ...request, ...changed }, bearer)
          expect(reply.status).toBe(same.status)
          if (isReader && reply.status >= 300) expect(other(reply.text)).toBe(other(same.text))
          // A list or a proof of the own database repeats a name, and depends on its hash.
          const names = decoded(sent).match(new RegExp(`${SECRET}( keeper|\\d|)`, 'g')) ?? []
          const rest = names.reduce((text, name) => text.replaceAll(name, ''), decoded(reply.text))
          if (isReader) expect(rest).not.toContain(SECRET)
        }
        const name = `${request.method} ${path.replace(/\?.*|\d{10,}/g, '')}`
        if (reply.status < 300) reads.set(name, (reads.get(name) ?? 0) + 1)
      },
    ),
    { numRuns: RUNS },
  )
  if (RUNS > 1_000) console.log(Object.fromEntries([...reads].filter(([, count]) => count > 1)))
  const chain = `/api/ledgers/${node.service.serverId}`
  const own = await textOf(node, `${chain}/changes?db=fruit&from=0`, token)
  expect(own.match(/"method":"create_item"/g)).toHaveLength(12)
  const path = `/api/ledgers?serverid=${node.service.serverId}&db=fruit`
  expect((await textOf(node, path, token)).match(/"method":"create_item"/g)).toHaveLength(12)
  expect(await textOf(node, `${chain}/changes?db=fruit&since=start`, token)).not.toContain(SECRET)
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

// Valid, invalid and damaged requests from the ledger's schemas, and bytes that are not requests. No reply is a 5xx,
// each JSON body has a boolean `status`, the server keeps running, and the store verifies.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildApp, type HttpApp } from '../../src/http/index.ts'
import { openLedger } from '../../src/ledger/core.ts'
import { ledgerComponent } from '../../src/ledger/index.ts'
import { bytesOf, type FuzzRequest, mutation, requestsOf } from '../support/fuzz.ts'
import {
  CREDENTIALS,
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../support/ledger-node.ts'
import { exchange, type RawReply } from '../support/raw-socket.ts'
import { roundsOf } from '../support/rounds.ts'

/** Parameters for fast-check: `runs` runs, but for at most `seconds` seconds. */
function amount(runs: number, seconds: number) {
  return { numRuns: roundsOf(runs), endOnFailure: true, interruptAfterTimeLimit: seconds * 1_000 }
}

/** Values for path parameters. They are few, so that requests use the same items. */
const known = {
  db: fc.constantFrom('a', 'b', '台帳'),
  id: fc.constantFrom('x', 'y', '🍎'),
  after: fc.constantFrom('x', 'y'),
  name: fc.constantFrom('n', 'ü.txt'),
}

let document: unknown
beforeAll(async () => {
  const node = await startLedgerNode()
  const json = (await node.send('GET', '/doc/json')).json
  // Removes this path, because its reply never ends. test/changes.test.ts tests it.
  delete json.paths['/api/ledgers/{serverid}/changes']
  document = json
  await node.close()
})

/** Paths whose successful replies are not JSON, because other specifications define their format. */
const IN_OTHER_FORMS =
  /^GET \/+api\/+(ledgers\/+(\d+|witness)\/+(checkpoint|state|vkey|tile\/)|[^/?]+\/+[^/?]+\/+proof|[^?]*\?(.*&)?proof=)/

/** Checks what every reply must fulfil. Needs the method, because replies to HEAD have no body. */
function expectSound(
  description: string,
  reply: { status: number; type: string; body: string },
  method: string,
): void {
  expect
    .soft([description, reply.status >= 500 && reply.status !== 503])
    .toEqual([description, false])
  if (method === 'HEAD') return
  // An attachment can have any content, so its body is not checked.
  if (/^GET [^?]*\/attachments\/[^?]/.test(description) && reply.status < 300) return
  if (reply.status === 200 && IN_OTHER_FORMS.test(description)) return
  expect([description, reply.type]).toEqual([description, 'application/json; charset=utf-8'])
  const json = JSON.parse(reply.body)
  expect([description, json.status]).toEqual([description, reply.status < 300])
  expect(JSON.stringify(json)).not.toMatch(/node_modules|\.ts:\d/)
}

async function inject(app: HttpApp, { method, path, headers, body }: FuzzRequest) {
  const reply = await app.inject({
    // The type lists only the common methods, but any method can be sent.
    method: method as 'GET',
    url: path,
    headers: { host: 'localhost', ...headers },
    ...(body.length === 0 ? {} : { payload: body }),
  })
  const type = String(reply.headers['content-type'])
  return { status: reply.statusCode, type, body: reply.body }
}

it('never returns a 5xx and always returns a boolean status, for valid, wrong and damaged requests', async () => {
  const folder = temporaryFolder()
  const clock = new HandClock()
  const ledger = await openLedger({ folder, clock })
  const component = ledgerComponent({
    ledger: ledger.service,
    credentials: CREDENTIALS,
    tokens: null,
    logger: pino({ level: 'silent' }),
    clock,
    monotonic: clock,
    version: '0.0.0',
    close: () => ledger.close(),
  })
  const app = await buildApp(component, {
    logger: pino({ level: 'silent' }),
    publicHosts: new Set(),
  })
  const serverid = fc.constant(String(ledger.service.serverId))
  const requests = requestsOf(document, { ...known, serverid })
  const methods = fc.constantFrom('GET', 'HEAD', 'PUT', 'OPTIONS', 'TRACE', 'PROPFIND', 'DELETE')
  const anyRequest = fc.oneof(
    { weight: 10, arbitrary: requests },
    { weight: 10, arbitrary: requestsOf(document, { ...known, serverid }, true) },
    // Known paths with other methods.
    fc.tuple(requests, methods).map(([request, method]) => ({ ...request, method })),
  )
  const { read, write } = ledger.service
  const fill = async () => {
    await write.createDatabase('a')
    await write.createItems('a', [{ id: 'x' }, { id: 'y', list: [1] }])
  }
  let runs = 0
  let sent = 0
  let succeeded = 0
  await fc.assert(
    fc.asyncProperty(fc.array(anyRequest, { minLength: 5, maxLength: 20 }), async (list) => {
      clock.time += 1
      runs += 1
      // A request may have deleted the database, and then most changes would fail.
      if (!(await read.databases()).includes('a')) await fill()
      // Sends the requests concurrently, so that they share blocks and depend on each other.
      const replies = await Promise.all(list.map((request) => inject(app, request)))
      sent += replies.length
      for (const [at, reply] of replies.entries()) {
        const { method = '', path = '', body } = list[at] ?? {}
        expectSound(`${method} ${path} ${body}`, reply, method)
        if (reply.status === 200) succeeded += 1
      }
    }),
    amount(1_000, 12),
  )
  console.log(`${succeeded} of ${sent} requests were done`)
  // The number of runs depends on the speed of the computer, but some of the requests must succeed.
  expect(succeeded).toBeGreaterThan(sent / 20)
  expect(
    (await inject(app, { method: 'GET', path: '/readyz', headers: {}, body: Buffer.alloc(0) }))
      .status,
  ).toBe(200)
  await app.close()
  const { finding, entries } = await verifyFolder(folder)
  expect(finding).toBeNull()
  expect(entries).toBeGreaterThan(runs / 10)
})

let node: LedgerNode
let host: string
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  node = await startLedgerNode({ folder })
  host = new URL(node.url).host
})
afterAll(async () => {
  await node.close()
  const { finding } = await verifyFolder(folder)
  rmSync(folder, { recursive: true, force: true })
  expect(finding).toBeNull()
})

/** Checks each of `replies` with its request. Replies to other requests can follow. */
function expectSoundReplies(
  requests: readonly FuzzRequest[],
  replies: readonly RawReply[],
  rest: string,
): void {
  expect([requests, rest]).toEqual([requests, ''])
  for (const [at, { status, headers, body }] of replies.entries()) {
    const { method = '', path = '', body: sent = '' } = requests[at] ?? {}
    const type = headers.get('content-type') ?? ''
    expectSound(`${method} ${path} ${sent}`, { status, type, body }, method)
  }
}

async function expectAlive(): Promise<void> {
  expect((await node.send('GET', '/readyz')).text).toBe('{"status":true}')
}

/** Returns a request with `Connection: close`, after whose reply the server ends the connection. */
const last = () => `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`

/** Splits `bytes` at random positions. */
function piecesOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted(
    (a, b) => a - b,
  )
  return places
    .slice(1)
    .map((end, at) => bytes.subarray(places[at] ?? 0, end))
    .filter((piece) => piece.length > 0)
}
const cuts = fc.array(fc.nat(), { maxLength: 6 })

it('answers each pipelined request in order, even if requests arrive in pieces', async () => {
  const requests = requestsOf(document, known).filter(({ method }) => method !== 'HEAD')
  await fc.assert(
    fc.asyncProperty(fc.array(requests, { minLength: 1, maxLength: 5 }), cuts, async (list, at) => {
      const bytes = Buffer.concat([...list.map((one) => bytesOf(one, host)), Buffer.from(last())])
      const { replies, rest } = await exchange(node.url, piecesOf(bytes, at))
      const requestText = bytes.toString('latin1').slice(0, 600)
      expectSoundReplies(list, replies, rest)
      // The server may close the connection early after a refusal. Otherwise it answers every request, and the
      // last with 200.
      const closedEarly = replies.some(
        ({ headers }, index) =>
          index < list.length && headers.get('connection')?.toLowerCase() === 'close',
      )
      if (!closedEarly) {
        expect([requestText, replies.length]).toEqual([requestText, list.length + 1])
        expect(replies.at(-1)?.body).toBe('{"status":true}')
      }
    }),
    amount(400, 8),
  )
  await expectAlive()
})

it('rejects or drops damaged and incomplete requests, never with a 5xx, and never hangs', async () => {
  const damaged = fc
    .tuple(requestsOf(document, known), fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([request, mutations]) =>
      mutations.reduce((bytes, mutate) => mutate(bytes), bytesOf(request, host)),
    )
  const half = fc.tuple(requestsOf(document, known), fc.nat()).map(([request, length]) => {
    const bytes = bytesOf(request, host)
    return bytes.subarray(0, length % bytes.length)
  })
  const line = fc.oneof(
    fc.string({ unit: 'binary-ascii', maxLength: 60 }),
    fc.constantFrom(
      ...[
        'GET / HTTP/1.1',
        'GET /api/dbs HTTP/9.9',
        'Host: a',
        'Host: localhost',
        'Content-Length: 5',
      ],
      ...[
        'Content-Length: 99999999999999999999',
        'Transfer-Encoding: chunked',
        'Connection: close',
      ],
      ...['Transfer-Encoding: chunked, identity', 'Expect: 100-continue', 'Upgrade: h2c', '', '0'],
      ...[
        'Connection: Upgrade, HTTP2-Settings',
        ' folded',
        'POST /api/a HTTP/1.1',
        'X'.repeat(9_000),
      ],
    ),
  )
  const lines = fc
    .array(line, { maxLength: 8 })
    .map((list) => Buffer.from(`${list.join('\r\n')}\r\n\r\n`))
  const noise = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))
  let answers = 0
  await fc.assert(
    fc.asyncProperty(fc.oneof(damaged, half, lines, noise), cuts, async (bytes, at) => {
      const pieces = piecesOf(bytes, at)
      const { replies, closed } = await exchange(node.url, pieces, { halfClose: true })
      expect(closed).toBe(true)
      answers += replies.length
      for (const { status, headers, body } of replies) {
        const asked = bytes.toString('latin1').slice(0, 600)
        expect([asked, status >= 500 && status !== 503]).toEqual([asked, false])
        if (body !== '' && headers.get('content-type')?.startsWith('application/json')) {
          expect(typeof JSON.parse(body).status).toBe('boolean')
        }
      }
    }),
    amount(1_000, 8),
  )
  expect(answers).toBeGreaterThan(100)
  await expectAlive()
})

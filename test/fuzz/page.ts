// Requests that a page of another site can cause, to the listeners that are closed to other sites. Usage:
//
//   node scripts/run.mjs test/fuzz/page.ts [requests] [seed]
//
// Sends `requests` (10,000) to each listener, of three kinds: from a page of another site, from such a page in a browser
// without `Sec-Fetch-Site`, and from a page whose host name points to this machine (DNS rebinding). Their paths are
// those of the OpenAPI document and variants of them; some ask for a WebSocket.
//
// Exits with code 1 if a request outside of the pages below /doc is answered with a status below 400, if a reply allows
// another site to read it or contains the text of an item, or if the ledger grows.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dice } from '../support/ledger-load.ts'
import { exchange, type RawReply } from '../support/raw-socket.ts'
import { type ListenerName, PLANS, type Served, serve } from './served.ts'

/** The listeners that are closed to other sites; the others have no data that only one site may read. */
const CLOSED = ['ledger', 'gateway'] as const
/** Requests that are open at the same time. */
const AT_ONCE = 8
/** Text of the stored items, which no page of another site may read. */
const SECRET = 'text-of-an-item-5f2c'
/** Pages that every site may read. */
const OPEN = /^\/doc(?:\/|$)/
const EVIL = 'evil.example'

interface Attempt {
  readonly method: string
  readonly path: string
  readonly text: string
}

/** Returns one of `values`. */
function pick<Value>(dice: Dice, values: readonly Value[]): Value {
  return values[dice.below(values.length)] as Value
}

const METHODS = ['GET', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const BODIES = [
  ['text/plain', `{"id":"x","text":"y"}`],
  ['application/json', `{"id":"x","text":"y"}`],
  ['application/x-www-form-urlencoded', 'id=x&text=y'],
  [
    'multipart/form-data; boundary=b',
    '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n',
  ],
  ['', ''],
] as const
const KINDS = ['another site', 'old browser', 'rebinding'] as const

/** Returns the headers that the browser of a page of `kind` adds, and that the page cannot change. */
function browserHeaders(dice: Dice, kind: (typeof KINDS)[number], host: string): string[] {
  const port = host.slice(host.indexOf(':'))
  const origin = pick(dice, [
    'null',
    `http://${EVIL}`,
    `https://${EVIL}`,
    `http://localhost${port}.${EVIL}`,
  ])
  if (kind === 'another site') {
    const site = `sec-fetch-site: ${pick(dice, ['cross-site', 'same-site'])}`
    const mode = `sec-fetch-mode: ${pick(dice, ['no-cors', 'cors', 'navigate', 'websocket'])}`
    // A browser sends no `Origin` with an image or a link.
    return [`host: ${host}`, site, mode, ...(dice.below(2) === 0 ? [] : [`origin: ${origin}`])]
  }
  if (kind === 'old browser') return [`host: ${host}`, `origin: ${origin}`]
  const name = pick(dice, [
    EVIL,
    `${EVIL}.`,
    `127.0.0.1.${EVIL}`,
    `localhost.${EVIL}`,
    `EVIL.example`,
  ])
  const hosts = [`host: ${name}${port}`, 'sec-fetch-site: same-origin']
  return dice.below(2) === 0 ? hosts : [...hosts, `origin: http://${name}${port}`]
}

function makeAttempt(dice: Dice, paths: readonly string[], host: string): Attempt {
  const known = pick(dice, paths).replace(/\{[^}]*\}/g, () =>
    pick(dice, ['a', 'doc', 'x', '%2e%2e']),
  )
  const path = pick(dice, [
    ...[known, known, known, `/${known}`, `/doc/..${known}`, `/doc/%2e%2e${known}`, `/doc${known}`],
    ...[
      `${known}/`,
      `${known}?x=/doc`,
      `${known}#/doc`,
      known.toUpperCase(),
      `/DOC`,
      `/doc?since=0`,
    ],
    ...[`http://${host}${known}`, `//${host}/doc`, '/doc%2f..', '/doc/json', '/?since=0', '*'],
  ])
  const method = pick(dice, METHODS)
  const lines = browserHeaders(dice, pick(dice, KINDS), host)
  if (dice.below(6) === 0) {
    lines.push('connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13')
    lines.push('sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==')
  } else lines.push('connection: close')
  if (method === 'OPTIONS') lines.push(`access-control-request-method: ${pick(dice, METHODS)}`)
  const [type, body] = method === 'GET' || method === 'HEAD' ? ['', ''] : pick(dice, BODIES)
  if (type !== '') lines.push(`content-type: ${type}`)
  lines.push(`content-length: ${Buffer.byteLength(body)}`)
  return {
    method,
    path,
    text: `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`,
  }
}

/** Returns what is wrong with the reply, or null. */
function judge({ method, path }: Attempt, reply: RawReply | undefined): string | null {
  if (reply === undefined) return 'no reply'
  if (reply.body.includes(SECRET)) return 'contains the text of an item'
  if (reply.headers.has('access-control-allow-origin'))
    return 'allows another site to read the reply'
  if (reply.status >= 500) return `is answered with ${reply.status}`
  if (reply.status >= 400) return null
  const isOpen = OPEN.test(path.split(/[?#]/)[0] ?? '') && (method === 'GET' || method === 'HEAD')
  return isOpen && reply.status !== 101 ? null : `is answered with ${reply.status}`
}

async function requireReply(url: string, init: RequestInit = {}): Promise<string> {
  const reply = await fetch(url, init)
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text}`)
  return text
}

async function createItem(name: ListenerName, url: string): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const post = { method: 'POST', headers }
  if (name === 'ledger') {
    await requireReply(`${url}/api/a`, post)
    await requireReply(`${url}/api/a`, { ...post, body: JSON.stringify({ text: SECRET }) })
  }
  if (name === 'gateway') {
    const body = JSON.stringify({ tradeId: SECRET, firstName: 'A', lastName: 'B' })
    await requireReply(`${url}/api/Trader`, { ...post, body })
  }
}

/** Returns the tree size and the root of the ledger, or '' for listeners without a ledger. */
async function readHead(name: ListenerName, url: string): Promise<string> {
  if (name === 'ledger') {
    const { serverid } = JSON.parse(await requireReply(`${url}/api/serverid`))
    return requireReply(`${url}/api/ledgers?serverid=${serverid}`)
  }
  return name === 'gateway' ? requireReply(`${url}/api/system/historian`) : ''
}

async function attackFrom(name: ListenerName, { url }: Served, count: number, dice: Dice) {
  await createItem(name, url)
  const before = await readHead(name, url)
  const paths = Object.keys(JSON.parse(await requireReply(url + PLANS[name].document)).paths)
  const host = new URL(url).host
  const statuses = new Map<number, number>()
  let sent = 0
  const client = async () => {
    while (sent < count) {
      sent += 1
      const attempt = makeAttempt(dice, paths, host)
      const { replies } = await exchange(url, [attempt.text], {
        replies: 1,
        methods: [attempt.method],
      })
      const status = replies[0]?.status ?? 0
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      const finding = judge(attempt, replies[0])
      if (finding !== null) {
        process.exitCode = 1
        console.log(`${name}: ${finding}: ${JSON.stringify(attempt.text)}`)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  const shown = [...statuses].map(([status, n]) => `${status}: ${n}`).join(', ')
  console.log(`${name}: ${shown}`)
  if ((await readHead(name, url)) === before) return
  process.exitCode = 1
  console.log(`${name}: the ledger has grown`)
}

const [requests = 10_000, seed = 1] = process.argv.slice(2).map(Number)
for (const name of CLOSED) {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-page-'))
  const served = await serve(name, folder)
  try {
    await attackFrom(name, served, requests, new Dice(seed))
  } finally {
    served.daicho.child.kill('SIGKILL')
    await served.daicho.ended
    rmSync(folder, { recursive: true })
  }
}

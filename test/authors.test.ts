// Who made each entry. AUTHORS_CHANGES=10000 runs the long version.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { beforeAll, expect, it } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { nodeVerifySignature, parseVerifierKey, verifyProofFile } from '../src/chain/index.ts'
import { eraseCommand } from '../src/cli/commands/erase.ts'
import { restoreCommand } from '../src/cli/commands/import.ts'
import { loadCommand } from '../src/cli/commands/load.ts'
import { logCommand } from '../src/cli/commands/log.ts'
import { networkCommand } from '../src/cli/commands/network.ts'
import { composeApp } from '../src/cli/composition/components.ts'
import { createRateLedger } from '../src/cli/composition/rates.ts'
import { readSettings } from '../src/cli/composition/settings.ts'
import { type Listener, startListener } from '../src/http/index.ts'
import { issueApiToken, openTokens, type TokenService } from '../src/tokens/index.ts'
import { basic } from './support/basic.ts'
import { runHere } from './support/command.ts'
import { databaseOf, tamperStore } from './support/engine.ts'
import { gateway } from './support/gateway.ts'
import { AUDIENCE } from './support/issuer.ts'
import { Dice } from './support/ledger-load.ts'
import {
  CREDENTIALS,
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { mirror, PEERS } from './support/peers.ts'
import { hasPython, pythonNote, runPython } from './support/python.ts'
import { type RealIssuer, startRealIssuer } from './support/real-issuer.ts'
import { until } from './support/until.ts'

const CHANGES = Number(process.env.AUTHORS_CHANGES ?? 80)
const SUBJECTS = ['alice', '台帳', 'c "d" \\', 'robot']
const SCOPES = ['db:*:admin', 'ledger:read', 'node:admin']

const clock = new HandClock()
let tokens: TokenService

beforeAll(async () => {
  tokens = await openTokens({ clock, folder: null, secret: 's'.repeat(32) })
})

const tokenFor = async (subject: string, scopes: readonly string[] = SCOPES) => {
  const { token } = await issueApiToken(tokens, { subject, scopes, lifeSeconds: 86_400 })
  return { authorization: `Bearer ${token}` }
}

const chainOf = async (node: LedgerNode, headers: Record<string, string>) => {
  const path = `/api/ledgers?serverid=${node.service.serverId}`
  const { ledgers } = (await node.send('GET', path, undefined, headers)).json
  return ledgers as { body: Record<string, unknown>[]; timestamps: number[] }[]
}

/** Returns the variables of a command that changes the node with this folder, which requires tokens. */
async function variablesFor(folder: string): Promise<Record<string, string>> {
  const database = await databaseOf(folder)
  const store: Record<string, string> = database === null ? {} : { STORE: database }
  return { SYSTEM_FOLDER: folder, TOKENS: 'required', ...store }
}

type Component = 'ledger' | 'gateway'
type Headers = Record<string, string>

/** Ledger and gateway as composed by `serve`, with tokens of the node and of an issuer. */
interface Composed {
  readonly url: Readonly<Record<Component, string>>
  send(
    to: Component,
    method: string,
    path: string,
    body?: unknown,
    headers?: Headers,
    // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary JSON
  ): Promise<{ status: number; text: string; json: any }>
  close(): Promise<void>
}

const API_KEY = 'k'.repeat(32)

async function compose(folder: string, issuer: RealIssuer): Promise<Composed> {
  const { name, password } = CREDENTIALS
  const settings = readSettings({
    ...(await variablesFor(folder)),
    ...{ BASIC_USERNAME: name, BASIC_PASSWORD: password, GATEWAY_API_KEY: API_KEY },
    ...{ OIDC_ISSUERS: issuer.url, OIDC_AUDIENCE: AUDIENCE, OIDC_ALLOW_PRIVATE: '1' },
    SECRET: 's'.repeat(32),
  })
  const logger = pino({ level: 'silent' })
  const host = '127.0.0.1'
  const app = await composeApp({
    ...{ names: ['ledger', 'gateway'], settings, host, clock: systemClock, logger },
    version: '0.0.0',
  })
  const listeners = new Map<string, Listener>()
  for (const [name, component] of app.components) {
    const options = { host, port: 0, logger, publicHosts: new Set<string>() }
    listeners.set(name, await startListener(component, options))
  }
  const address = (to: Component) => listeners.get(to)?.url ?? ''
  return {
    url: { ledger: address('ledger'), gateway: address('gateway') },
    async send(to, method, path, body, headers = {}) {
      const isRaw = body === undefined || typeof body === 'string'
      const type: Headers = isRaw ? {} : { 'content-type': 'application/json' }
      const sent = isRaw ? (body ?? null) : JSON.stringify(body)
      const reply = await fetch(address(to) + path, {
        ...{ method, headers: { ...type, ...headers }, body: sent },
      })
      const text = await reply.text()
      return { status: reply.status, text, json: /^[[{]/.test(text) ? JSON.parse(text) : null }
    },
    async close() {
      await Promise.all([...listeners.values()].map((listener) => listener.close()))
      await app.close()
    },
  }
}

/** Somebody who changes the ledger, and the author that his entries must have. */
interface Person {
  readonly by: { readonly sub: string; readonly iss?: string }
  /** Returns the headers of a request. A person may have many tokens. */
  headers(): Promise<Headers>
}

const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })

/** The owners of tokens of the node and of the issuer, among them two with the same name, and the user of the dashboard. */
function people(node: () => Composed, issuer: RealIssuer): Person[] {
  const { name, password } = CREDENTIALS
  return [
    ...SUBJECTS.map((sub) => ({ by: { sub }, headers: () => tokenFor(sub) })),
    ...['robot', 'reporter'].map((sub) => ({
      by: { iss: issuer.url, sub },
      headers: async () => bearer(await issuer.token(SCOPES.join(' '), sub)),
    })),
    {
      by: { sub: name },
      headers: async () => {
        const path = '/session'
        const { json } = await node().send('ledger', 'POST', path, '', basic(name, password))
        return { 'x-access-token': json.token }
      },
    },
  ]
}

/** A change of one person: how it is made, and the reasons that its entries must have. */
interface Step {
  readonly kind: string
  readonly by: Person['by']
  /** Makes the change. Returns whether it was recorded. */
  make(): Promise<boolean>
  /** The reason of the entry with this index among those of the change. */
  reason(index: number): string | undefined
}

/** All kinds of changes. */
const KINDS = [
  ...['attach', 'command erase', 'command load', 'create', 'create many', 'create_db', 'delete'],
  ...['delete_db', 'detach', 'erase', 'erase many', 'network add', 'network add many'],
  ...['network issue', 'network patch', 'network remove', 'network replace', 'network submit'],
  ...['patch', 'replace', 'unit'],
]

const bulk = (db: string, id: string, n: number) => [
  { method: 'create_item', db, item: { n }, by: { sub: 'mallory' }, reason: `why ${n}` },
  { method: 'create_item', db, item: { id: `u${n}`, of: id } },
  { method: 'patch_item', db, item: { id: `u${n}`, n }, by: { sub: 'mallory' } },
]

/** Returns a random change by `person` through the API of the ledger. The request also names false authors. */
function ledgerStep(node: Composed, dice: Dice, person: Person, n: number): Step {
  const db = `d${dice.below(3)}`
  const id = `i${dice.below(6)}`
  const item = { id, n, by: { sub: 'mallory' } }
  const kinds: [kind: string, method: string, path: string, body?: unknown][] = [
    ['create_db', 'POST', `/api/${db}`],
    ['create', 'POST', `/api/${db}`, item],
    ['create many', 'POST', `/api/${db}`, [{ n }, { n }]],
    ['replace', 'POST', `/api/${db}/${id}`, item],
    ['patch', 'PATCH', `/api/${db}/${id}`, { n }],
    ['delete', 'DELETE', `/api/${db}/${id}`],
    ['attach', 'PUT', `/api/${db}/${id}/attachments/a`, `${n}`],
    ['detach', 'DELETE', `/api/${db}/${id}/attachments/a`],
    ['erase', 'POST', `/api/${db}/${id}/erase`],
    ['erase many', 'POST', '/api/config/erasures', { db, where: {}, reason: `law ${n}` }],
    ['unit', 'POST', '/api/ledgers', { entries: bulk(db, id, n) }],
    ...(dice.below(20) === 0
      ? ([['delete_db', 'DELETE', `/api/${db}`]] as [string, string, string][])
      : []),
  ]
  const chosen = kinds[dice.below(kinds.length)] ?? kinds[0]
  if (chosen === undefined) throw new Error('there is no kind of change')
  const [kind, method, path, body] = chosen
  const reason = dice.below(2) === 0 ? `prix ${n}: "é"\n` : undefined
  return {
    ...{ kind, by: person.by },
    reason: (index) => {
      if (kind === 'erase many') return `law ${n}`
      return kind === 'unit' && index === 0 ? `why ${n}` : reason
    },
    async make() {
      const send = async () => {
        const headers = {
          ...(await person.headers()),
          ...{ 'x-ledger-by': 'mallory', 'ledger-by': '{"sub":"mallory"}' },
          ...(reason === undefined ? {} : { 'ledger-reason': encodeURIComponent(reason) }),
          ...(method === 'PUT' ? { 'content-type': 'text/plain' } : {}),
          'idempotency-key': `"${n}"`,
        }
        return node.send('ledger', method, path, body, headers)
      }
      const reply = await send()
      // A repetition, also with another token of the subject, adds nothing.
      if (reply.status < 300) expect((await send()).status).toBe(reply.status)
      return reply.status < 300
    },
  }
}

/** Returns a random change of the business network by its administrator, an identity, or an account of the issuer. */
function networkStep(
  node: Composed,
  dice: Dice,
  issuer: RealIssuer,
  secret: string,
  n: number,
): Step {
  const participants: [string, () => Promise<Headers>][] = [
    ['org.hyperledger.composer.system.NetworkAdmin#admin', async () => ({ 'x-api-key': API_KEY })],
    [`${TRADER}#T1`, async () => bearer(await issuer.token(''))],
    [`${TRADER}#T2`, async () => bearer(secret)],
  ]
  const [sub, headers] = participants[dice.below(participants.length)] ?? participants[0] ?? []
  if (sub === undefined || headers === undefined) throw new Error('there is no participant')
  const commodity = toCommodity(n)
  const trade = {
    commodity: 'resource:org.acme.mynetwork.Commodity#A',
    newOwner: `resource:${TRADER}#T2`,
  }
  const kinds: [kind: string, method: string, path: string, body?: unknown][] = [
    ['network add', 'POST', '/api/Commodity', { ...commodity, tradingSymbol: `C${n}` }],
    ['network replace', 'PUT', '/api/Commodity/A', commodity],
    ['network patch', 'PATCH', '/api/Commodity/A', { quantity: n }],
    ['network submit', 'POST', '/api/Trade', trade],
    ['network add many', 'POST', '/api/Trader', [trader(`a${n}`), trader(`b${n}`)]],
    ['network remove', 'DELETE', `/api/Trader/a${n - 1 - dice.below(40)}`],
    [
      'network issue',
      'POST',
      '/api/system/identities/issue',
      { participant: `${TRADER}#T1`, userID: `${n}` },
    ],
  ]
  const [kind, method, path, body] = kinds[dice.below(kinds.length)] ?? kinds[0] ?? []
  if (kind === undefined || method === undefined || path === undefined) throw new Error('no kind')
  return {
    ...{ kind, by: { iss: 'mynetwork', sub }, reason: () => undefined },
    async make() {
      const sent = { ...(await headers()), 'ledger-by': '{"sub":"mallory"}' }
      return (await node.send('gateway', method, path, body, sent)).status < 300
    },
  }
}

/** Returns a command that changes the running node with a token of `person`. */
function commandStep(node: Composed, dice: Dice, person: Person, n: number, folder: string): Step {
  const file = join(folder, 'items.ndjson')
  const isErasure = dice.below(3) === 0
  return {
    ...{ kind: isErasure ? 'command erase' : 'command load', by: person.by },
    reason: () => (isErasure ? `end ${n}` : undefined),
    async make() {
      const { authorization = '', 'x-access-token': session } = await person.headers()
      const token = session ?? authorization.replace('Bearer ', '')
      const at = ['--url', node.url.ledger, '--token', token]
      writeFileSync(file, `{"id":"l${n}","n":${n}}\n{"id":"l","n":${n}}\n`)
      const load = ['d0', file, '--on-conflict', 'replace', '--state', join(folder, `${n}.load`)]
      const erase = ['d0', '--ids', 'l', '--reason', `end ${n}`]
      const { code } = await (isErasure
        ? runHere(eraseCommand(), [...erase, ...at])
        : runHere(loadCommand(), [...load, ...at]))
      return code === 0
    },
  }
}

const TRADER = 'org.acme.mynetwork.Trader'
const toCommodity = (n: number) => ({
  ...{ tradingSymbol: 'A', description: `${n}`, mainExchange: 'E', quantity: n },
  owner: `resource:${TRADER}#T1`,
})
const trader = (tradeId: string) => ({ tradeId, firstName: 'A', lastName: 'B' })

/** Adds two traders, and binds the account `robot` of the issuer to one. Returns the secret of the other. */
async function bindTraders(node: Composed, issuer: RealIssuer): Promise<string> {
  const send = async (path: string, body: unknown) => {
    const key = { 'x-api-key': API_KEY }
    const { status, text, json } = await node.send('gateway', 'POST', `/api/${path}`, body, key)
    expect([path, status < 300, text]).toEqual([path, true, text])
    return json
  }
  await send('Trader', [trader('T1'), trader('T2')])
  await send('Commodity', toCommodity(0))
  const certificate = `oidc:${issuer.url} robot`
  const participant = (id: string) => `resource:${TRADER}#${id}`
  await send('system/identities/bind', { participant: participant('T1'), certificate })
  const identity = { participant: participant('T2'), userID: 'two' }
  return (await send('system/identities/issue', identity)).userSecret
}

/** The author and the reason of an entry. */
type Made = readonly [by: unknown, reason: unknown]

/** Returns author and reason of each entry from block `from` on, null if the entry is erased, and the number of blocks. */
async function readMade(node: Composed, from: number, headers: Headers) {
  const { json } = await node.send('ledger', 'GET', '/api/serverid', undefined, headers)
  const path = `/api/ledgers?serverid=${json.serverid}&offset=${from}&proof=true`
  const { ledgers } = (await node.send('ledger', 'GET', path, undefined, headers)).json
  const made = new Map<string, Made | null>()
  for (const [at, { body, proof }] of ledgers.entries()) {
    for (const [index, { by, reason }] of body.entries()) {
      const isErased = proof.blinds[index] === null
      made.set(`${from + at}.${index}`, isErased ? null : [by, reason])
      if (isErased) expect([by, reason]).toEqual([undefined, undefined])
    }
  }
  return { made, blocks: from + ledgers.length, serverId: json.serverid }
}

it(`each of ${CHANGES} changes through ledger, gateway and commands has the author who made it and the given reason`, async () => {
  const folder = temporaryFolder()
  const issuer = await startRealIssuer('http://127.0.0.1/')
  let node = await compose(folder, issuer)
  const secret = await bindTraders(node, issuer)
  const everybody = people(() => node, issuer)
  const reader = await tokenFor('reader')
  const dice = new Dice(46)
  let { made: seen, blocks, serverId } = await readMade(node, 0, reader)
  const counts = new Map<string, number>()
  for (let n = 0; n < CHANGES; n += 1) {
    const person = everybody[dice.below(everybody.length)] ?? everybody[0]
    if (person === undefined) throw new Error('there is nobody')
    const sort = dice.below(20)
    const step =
      sort === 0
        ? commandStep(node, dice, person, n, folder)
        : sort < 5
          ? networkStep(node, dice, issuer, secret, n)
          : ledgerStep(node, dice, person, n)
    const isMade = await step.make()
    const read = await readMade(node, blocks, reader)
    blocks = read.blocks
    // A refused change leaves no entry. An erasure may find nothing to erase.
    if (!isMade) expect([step.kind, ...read.made]).toEqual([step.kind])
    for (const [index, [position, made]] of [...read.made].entries()) {
      const expected = [step.by, step.reason(index)]
      expect([step.kind, position, made]).toEqual([step.kind, position, expected])
      seen.set(position, made)
    }
    if (isMade && read.made.size > 0) counts.set(step.kind, (counts.get(step.kind) ?? 0) + 1)
  }
  // Any of them may be missing in a short run.
  if (CHANGES >= 1_500) expect([...counts.keys()].sort()).toEqual(KINDS)
  if (CHANGES >= 1_500) console.log(seen.size, Object.fromEntries(counts))
  // The authors stay as they are after a restart, except for those of erased entries.
  await node.close()
  node = await compose(folder, issuer)
  const last = await readMade(node, 0, reader)
  expect([...last.made.keys()]).toEqual([...seen.keys()])
  for (const [position, made] of last.made) {
    if (made !== null) expect([position, made]).toEqual([position, seen.get(position)])
  }

  // The same entries, found by author.
  for (const { by } of everybody) {
    const query = new URLSearchParams({
      from: '0',
      by: by.sub,
      iss: 'iss' in by ? `${by.iss}` : '',
    })
    const path = `/api/ledgers/${serverId}/changes?${query}`
    const { changes, next } = (await node.send('ledger', 'GET', path, undefined, reader)).json
    const own = [...last.made].filter(
      ([, made]) => JSON.stringify(made?.[0]) === JSON.stringify(by),
    )
    const positions = changes.map(({ position }: { position: string }) => position)
    expect([by, next, positions]).toEqual([by, null, own.map(([position]) => position)])
  }
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null })
}, 3_600_000)

it('entries have no author without tokens, and a reason only if the client sends one', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'plum' }, { 'ledger-reason': 'it%20is%20ripe' })
  const [first, second] = await chainOf(node, {})
  const { serverId: serverid } = node.service
  expect(first?.body).toEqual([{ db: 'fruit', method: 'create_db', serverid }])
  expect(second?.body).toEqual([
    { db: 'fruit', item: { id: 'plum' }, method: 'create_item', reason: 'it is ripe', serverid },
  ])
  for (const reason of ['', '%', '%ff', 'x'.repeat(1_025), 'é']) {
    const { status, json } = await node.send('POST', '/api/fruit', {}, { 'ledger-reason': reason })
    expect([reason, status, json.code]).toEqual([reason, 400, 'REASON_INVALID'])
  }
  await node.close()
})

it('a change in the dashboard has the name of the user who signed in', async () => {
  const node = await startLedgerNode({ tokens, clock })
  const { name, password } = CREDENTIALS
  const { token } = (await node.send('POST', '/session', undefined, basic(name, password))).json
  await node.send('POST', '/api/fruit', undefined, { 'x-access-token': token })
  const [block] = await chainOf(node, await tokenFor('alice'))
  expect(block?.body[0]?.by).toEqual({ sub: name })
  await node.close()
})

it('erasing removes author and reason of the erased entry and of the deletion, and records those of the erasure', async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ tokens, clock, folder })
  const alice = await tokenFor('alice')
  await node.send('POST', '/api/fruit', undefined, alice)
  await node.send(
    'POST',
    '/api/fruit',
    { id: 'plum', n: 1 },
    { ...alice, 'ledger-reason': 'secret' },
  )
  await node.send('POST', '/api/fruit/plum', { n: 2 }, alice)
  const bob = { ...(await tokenFor('bob')), 'ledger-reason': 'GDPR' }
  await node.send('POST', '/api/fruit/plum/erase', undefined, bob)
  const blocks = await chainOf(node, alice)
  expect(blocks[1]?.body[0]).toEqual({
    ...{ db: 'fruit', item: { id: 'plum' }, method: 'create_item' },
    serverid: node.service.serverId,
  })
  expect(blocks[3]?.body[0]).toMatchObject({
    by: { sub: 'bob' },
    reason: 'GDPR',
    positions: ['1.0'],
  })
  const { history } = (await node.send('GET', '/api/fruit/plum/history', undefined, alice)).json
  expect(history).toEqual([
    { position: '1.0', timestamp: clock.time, method: 'create_item', erased: true },
    expect.objectContaining({ position: '2.0', by: { sub: 'alice' } }),
  ])

  // Those of the deletion, together with the last revision.
  await node.send('DELETE', '/api/fruit/plum', undefined, { ...alice, 'ledger-reason': 'secret' })
  const last = await node.send('POST', '/api/fruit/plum/erase', undefined, bob)
  expect(last.json.positions).toEqual(['2.0', '4.0'])
  const { serverId: serverid } = node.service
  expect((await chainOf(node, alice))[4]?.body).toEqual([
    { db: 'fruit', id: 'plum', method: 'delete_item', serverid },
  ])
  const again = await node.send('POST', '/api/fruit/plum/erase', undefined, bob)
  expect(again.json.code).toBe('NOTHING_TO_ERASE')
  expect((await node.send('GET', '/api/fruit', undefined, alice)).json.items).toEqual([])
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null, erased: 3 })
  const source = await startLedgerNode({ clock, folder })
  const copy = await startLedgerNode({ clock, peers: PEERS })
  await mirror(copy, source)
  await until('the mirror has all blocks', async () => {
    const { peers } = (await copy.send('GET', '/api/config/peers')).json
    return peers[0].blocks === 6
  })
  await copy.close()
  await source.close()
})

it('commands record --by, or the user of the system if the node requires tokens; networks their participant; rates the feed', async () => {
  const folder = temporaryFolder()
  const required = await variablesFor(folder)
  const file = join(folder, 'fruit.ndjson')
  writeFileSync(file, '{"id":"plum"}\n')
  const load = (...flags: string[]) => runHere(loadCommand(), ['fruit', file, ...flags], required)
  expect((await load('--by', 'ann')).code).toBe(0)
  expect((await load('--on-conflict', 'replace')).code).toBe(0)
  expect((await load('--by', 'ann', '--url', 'http://127.0.0.1:1')).stderr).toContain(
    '--by has no effect',
  )
  expect((await load('--by', '')).code).toBe(2)
  const deploy = ['deploy', 'test/networks/trade', '--by', 'ann']
  expect((await runHere(networkCommand(), deploy, required)).code).toBe(0)
  const node = await startLedgerNode({ folder, tokens, clock })
  await createRateLedger(node.service).record({
    ...{
      id: '2026-01-01.ecb.0',
      source: 'ecb',
      asOf: '2026-01-01',
      acceptedAt: '',
      perEur: {},
      rate: {},
    },
  })
  const blocks = await chainOf(node, await tokenFor('alice'))
  const authors = blocks.map(({ body }) => [...new Set(body.map(({ by }) => Object(by).sub))])
  const { USER: user = 'root' } = process.env
  expect(authors).toEqual([['ann'], ['ann'], [user], ['ann'], ['daicho:rates'], ['daicho:rates']])
  await node.close()
  const log = await runHere(logCommand(), ['--by', 'ann', '--db', 'fruit'], required)
  expect(log.stdout.split('\n').map((line) => line.split('  ').slice(1).join('  '))).toEqual([
    '0.0  create_db  fruit  by ann',
    '1.0  create_item  fruit/plum  by ann',
    '',
  ])
})

it('an identity of a network is recorded as its participant, and a request without an identity has no author', async () => {
  const node = await gateway()
  const trader = { tradeId: 'T1', firstName: 'A', lastName: 'B' }
  await node.send('POST', '/api/Trader', trader)
  const participant = 'resource:org.acme.mynetwork.Trader#T1'
  const issue = { participant, userID: 'one' }
  const { json } = await node.send('POST', '/api/system/identities/issue', issue)
  const own = { authorization: `Bearer ${json.userSecret}` }
  const change = { ...trader, firstName: 'C', by: undefined }
  const changed = await node.send('PUT', '/api/Trader/T1?by=mallory', change, own)
  expect(changed.status).toBe(200)
  const blocks = await node.ledger.store.blocks(node.ledger.serverId, 0, 10)
  const authors = blocks.map(({ entries }) => [
    ...new Set(entries.map((entry) => JSON.stringify(JSON.parse(entry).by))),
  ])
  const by = '{"iss":"mynetwork","sub":"org.acme.mynetwork.Trader#T1"}'
  expect(authors.at(-1)).toEqual([by])
  expect(new Set(authors.slice(0, -1).flat())).toEqual(new Set([undefined]))
})

it('restore into a new chain records --by, or the user of the system if the node requires tokens', async () => {
  const source = await startLedgerNode()
  await source.send('POST', '/api/fruit')
  await source.send('POST', '/api/fruit', { id: 'plum' })
  const { serverId, log } = source.service
  const { USER: user = 'root' } = process.env
  for (const [flags, by] of [
    [['--by', 'ann'], 'ann'],
    [[], user],
  ] as const) {
    const folder = temporaryFolder()
    const variables = { ...(await variablesFor(folder)), PEERS_ALLOW_PRIVATE: '1' }
    const from = ['--from', source.url, '--serverid', `${serverId}`, '--key', log.verifierKey]
    const restored = await runHere(restoreCommand(), [...from, ...flags], variables)
    expect([restored.code, restored.stderr]).toEqual([0, expect.anything()])
    const node = await startLedgerNode({ folder, tokens, clock })
    const blocks = await chainOf(node, await tokenFor('alice'))
    const authors = blocks.flatMap(({ body }) => body.map((entry) => entry.by))
    expect(new Set(authors.map((author) => JSON.stringify(author)))).toEqual(
      new Set([`{"sub":"${by}"}`]),
    )
    await node.close()
  }
  const kept = await runHere(
    restoreCommand(),
    ['--from', source.url, '--serverid', `${serverId}`, '--by', 'ann'],
    { SYSTEM_FOLDER: temporaryFolder() },
  )
  expect(kept.stderr).toContain('only a new chain, with --key, gets new entries')
  await source.close()
})

it(`verify, a proof check${pythonNote} and a mirror detect one changed byte of an author or a reason`, async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder, tokens, clock, peers: PEERS })
  const alice = await tokenFor('alice')
  await node.send('POST', '/api/fruit', undefined, alice)
  await node.send('POST', '/api/fruit', { id: 'plum' }, { ...alice, 'ledger-reason': 'ripe' })
  const proof = (await node.send('GET', '/api/fruit/plum/proof', undefined, alice)).text
  const vkey = node.service.log.verifierKey
  const key = parseVerifierKey(vkey)
  const proven = await verifyProofFile(nodeVerifySignature, key, proof)
  expect(proven.entry).toMatchObject({ by: { sub: 'alice' }, reason: 'ripe' })
  const extra = /^extra (\S+)$/m.exec(proof)?.[1] ?? ''
  for (const [from, to] of [
    ['alice', 'alicf'],
    ['ripe', 'rope'],
    [',"reason":"ripe"', ''],
    ['"by":{"sub":"alice"},', ''],
  ] as const) {
    const opening = Buffer.from(extra, 'base64').toString().replace(from, to)
    const changed = proof.replace(extra, Buffer.from(opening).toString('base64'))
    await expect(verifyProofFile(nodeVerifySignature, key, changed)).rejects.toMatchObject({
      code: 'PROOF_WRONG',
    })
    if (!hasPython) continue
    const path = join(temporaryFolder(), 'a.tlog-proof')
    writeFileSync(path, changed)
    await expect(runPython(['src/daicho/verify_proof.py', path, vkey], {})).rejects.toMatchObject({
      stderr: expect.stringContaining('does not match the root of its block'),
    })
  }
  await node.close()
  for (const [from, to] of [
    ['ripe', 'rope'],
    ['alice', 'alicf'],
  ] as const) {
    const replace = (one: string, other: string) =>
      `UPDATE blocks SET body = replace(body, '${one}', '${other}') WHERE height = 1`
    await tamperStore(folder, replace(from, to))
    expect(await verifyFolder(folder)).toMatchObject({ finding: { height: 1, index: 0 } })
    const changed = await startLedgerNode({ folder, clock })
    const copy = await startLedgerNode({ clock, peers: PEERS })
    await mirror(copy, changed)
    await until('the mirror reports the entry', async () => {
      const { peers } = (await copy.send('GET', '/api/config/peers')).json
      return JSON.stringify(peers).includes('commitment')
    })
    await copy.close()
    await changed.close()
    await tamperStore(folder, replace(to, from))
  }
  expect(await verifyFolder(folder)).toMatchObject({ finding: null })
})

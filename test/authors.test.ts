// Who made each entry. AUTHORS_CHANGES=10000 runs the long version.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { nodeVerifySignature, parseVerifierKey, verifyProofFile } from '../src/chain/index.ts'
import { restoreCommand } from '../src/cli/commands/import.ts'
import { loadCommand } from '../src/cli/commands/load.ts'
import { logCommand } from '../src/cli/commands/log.ts'
import { networkCommand } from '../src/cli/commands/network.ts'
import { createRateLedger } from '../src/cli/composition/rates.ts'
import { issueApiToken, openTokens, type TokenService } from '../src/tokens/index.ts'
import { basic } from './support/basic.ts'
import { runHere } from './support/command.ts'
import { databaseOf, isOnDatabases } from './support/engine.ts'
import { gateway } from './support/gateway.ts'
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
import { tamper } from './support/tampered.ts'
import { until } from './support/until.ts'

const CHANGES = Number(process.env.AUTHORS_CHANGES ?? 150)
const SUBJECTS = ['alice', 'bob', '台帳', 'c "d" \\', 'erin@example.org']
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

/** An entry as in the chain, and the author and reason that it should have. */
interface Made {
  readonly by: string
  readonly reason: string | undefined
}

const chainOf = async (node: LedgerNode, headers: Record<string, string>) => {
  const path = `/api/ledgers?serverid=${node.service.serverId}`
  const { ledgers } = (await node.send('GET', path, undefined, headers)).json
  return ledgers as { body: Record<string, unknown>[]; timestamps: number[] }[]
}

/** Makes one random change of `by`, which also sends false authors. Returns the reply and the number of entries. */
async function change(node: LedgerNode, dice: Dice, headers: Record<string, string>, n: number) {
  const db = `d${dice.below(3)}`
  const id = `i${dice.below(20)}`
  const item = { id, n, by: { sub: 'mallory' } }
  const kinds: readonly (() => [string, string, unknown?])[] = [
    () => ['POST', `/api/${db}`],
    () => ['POST', `/api/${db}`, item],
    () => ['POST', `/api/${db}`, [{ n }, { n }]],
    () => ['POST', `/api/${db}/${id}?by=mallory`, item],
    () => ['PATCH', `/api/${db}/${id}`, { n }],
    () => ['DELETE', `/api/${db}/${id}`],
    () => ['PUT', `/api/${db}/${id}/attachments/a`, `${n}`],
    () => ['DELETE', `/api/${db}/${id}/attachments/a`],
    () => ['POST', `/api/${db}/${id}/erase`],
    () => ['POST', '/api/ledgers', { entries: bulk(db, id, n) }],
    () => (dice.below(20) === 0 ? ['DELETE', `/api/${db}`] : ['POST', `/api/${db}`, { n }]),
  ]
  const [method, path, body] = (kinds[dice.below(kinds.length)] ?? kinds[0])?.() ?? ['', '']
  const type: Record<string, string> = method === 'PUT' ? { 'content-type': 'text/plain' } : {}
  const reply = await node.send(method, path, body, { ...headers, ...type })
  return { method, path, body, reply }
}

/** Returns the variables of a command that changes the node with this folder, which requires tokens. */
async function variablesFor(folder: string): Promise<Record<string, string>> {
  const database = await databaseOf(folder)
  const store: Record<string, string> = database === null ? {} : { STORE: database }
  return { SYSTEM_FOLDER: folder, TOKENS: 'required', ...store }
}

const bulk = (db: string, id: string, n: number) => [
  { method: 'create_item', db, item: { n }, by: { sub: 'mallory' }, reason: `why ${n}` },
  { method: 'create_item', db, item: { n, of: id } },
]

it(`each of ${CHANGES} changes by five subjects through every route has the subject of its token and the given reason`, async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ clock, tokens, folder })
  const dice = new Dice(46)
  const owners = new Map<string, Record<string, string>>()
  for (const subject of SUBJECTS) owners.set(subject, await tokenFor(subject))
  const reader = owners.get('alice') ?? {}
  const expected = new Map<string, Made>()
  for (let n = 0; n < CHANGES; n += 1) {
    clock.time += 1_000
    const by = SUBJECTS[dice.below(SUBJECTS.length)] ?? ''
    const reason = dice.below(2) === 0 ? `prix ${n}: "é"\n` : undefined
    const headers = {
      ...owners.get(by),
      ...{ 'x-ledger-by': 'mallory', 'ledger-by': '{"sub":"mallory"}' },
      ...(reason === undefined ? {} : { 'ledger-reason': encodeURIComponent(reason) }),
    }
    const keyed = { ...headers, 'idempotency-key': `"${n}"` }
    const { method, path, body, reply } = await change(node, dice, keyed, n)
    if (reply.status >= 300) continue
    const [, height, index] =
      /\/(\d+)\.(\d+)$/.exec(reply.headers.get('ledger-position') ?? '') ?? []
    const { ids, results } = reply.json
    const reasons = results === undefined ? (ids ?? ['']).map(() => reason) : [`why ${n}`, reason]
    for (const [at, why] of reasons.entries()) {
      expected.set(`${height}.${Number(index) + at}`, { by, reason: why })
    }
    // A repetition, also with another token of the subject, adds nothing.
    const again = {
      ...keyed,
      ...(await tokenFor(by)),
      ...(method === 'PUT' ? { 'content-type': 'text/plain' } : {}),
    }
    const repeated = await node.send(method, path, body, again)
    expect(repeated.headers.get('ledger-position')).toBe(reply.headers.get('ledger-position'))
  }
  const blocks = await chainOf(node, reader)
  let seen = 0
  for (const [height, { body }] of blocks.entries()) {
    for (const [index, { by, reason, ...entry }] of body.entries()) {
      const made = expected.get(`${height}.${index}`)
      const isErased =
        JSON.stringify(entry.attachment) === '{}' || (by === undefined && 'item' in entry)
      if (isErased)
        expect([by, reason, Object.keys(entry.item ?? {})]).toEqual([
          undefined,
          undefined,
          entry.item === undefined ? [] : ['id'],
        ])
      else
        expect([height, index, by, reason]).toEqual([
          height,
          index,
          { sub: made?.by },
          made?.reason,
        ])
      seen += 1
    }
  }
  expect(seen).toBe(expected.size)

  // The same entries, found by author and time.
  for (const by of SUBJECTS) {
    const query = new URLSearchParams({ by, from: '0' })
    const path = `/api/ledgers/${node.service.serverId}/changes?${query}`
    const { changes, next } = (await node.send('GET', path, undefined, reader)).json
    const own = blocks.flatMap(({ body }, height) =>
      body.flatMap((entry, index) => (Object(entry.by).sub === by ? [`${height}.${index}`] : [])),
    )
    expect([next, changes.map(({ position }: { position: string }) => position)]).toEqual([
      null,
      own,
    ])
  }
  await node.close()
  expect(await verifyFolder(folder)).toMatchObject({ finding: null })
}, 600_000)

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

it('erasing removes author and reason of the erased entry, and records those of the erasure', async () => {
  const node = await startLedgerNode({ tokens, clock })
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
  await node.close()
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

it.skipIf(isOnDatabases())(
  `verify, a proof check${pythonNote} and a mirror detect one changed byte of an author or a reason`,
  async () => {
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
      await expect(runPython(['src/daicho/verify_proof.py', path, vkey], {})).rejects.toMatchObject(
        {
          stderr: expect.stringContaining('does not match the root of its block'),
        },
      )
    }
    await node.close()
    tamper(folder, `UPDATE blocks SET body = replace(body, 'alice', 'alicf') WHERE height = 1`)
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
  },
)

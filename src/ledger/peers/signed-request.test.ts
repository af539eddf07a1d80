// Tests that the signature of a peer replaces a token only for the requests that a mirror makes.
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { HandClock, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { until } from '../../../test/support/until.ts'
import {
  logOrigin,
  parseVerifierKey,
  rawPublicKey,
  toServerId,
  verifierKeyText,
} from '../../chain/index.ts'
import { issueApiToken, openTokens } from '../../tokens/index.ts'
import { PeerClient } from './peer-client.ts'
import { NodeSigner, SignedRequests, type Signer, signatureHeaders } from './signed-request.ts'

const NOTHING = Buffer.alloc(0)

function keyPair(): { serverId: number; privateKey: KeyObject; vkey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const serverId = toServerId(publicKey)
  const key = { name: logOrigin(serverId), publicKey: rawPublicKey(publicKey) }
  return { serverId, privateKey, vkey: verifierKeyText(key) }
}

/** Starts a node that requires tokens and has one peer without a URL. */
async function guarded() {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens, peers: { allowPrivate: true } })
  onTestFinished(() => node.close())
  const scopes = ['db:*:admin', 'ledger:read', 'node:admin', 'node:sync']
  const { token } = await issueApiToken(tokens, { subject: 'test', scopes, lifeSeconds: 3_600 })
  const admin = { authorization: `Bearer ${token}` }
  await node.send('POST', '/api/fruit', undefined, admin)
  for (let n = 1; n < 9; n += 1) await node.send('POST', '/api/fruit', { id: `${n}` }, admin)
  await node.service.log.consistency(0, 9)
  const peer = keyPair()
  expect(await node.send('POST', '/api/config/peers', { vkey: peer.vkey }, admin)).toMatchObject({
    status: 200,
  })
  const signer = (change: Partial<Signer> = {}): Signer => ({
    keyId: logOrigin(peer.serverId),
    privateKey: peer.privateKey,
    nowMs: clock.now(),
    nonce: randomBytes(16).toString('base64url'),
    ...change,
  })
  const { host: authority } = new URL(node.url)
  /** Returns the headers that sign a GET request for the path `signedFor`. */
  const headersOf = (signedFor: string, change: Partial<Signer> = {}, body = NOTHING) => {
    const { pathname: path, search } = new URL(signedFor, node.url)
    const request = { method: 'GET', authority, path, query: search === '' ? '?' : search }
    return signatureHeaders(request, body, signer(change))
  }
  const read = (path: string, headers: Record<string, string>) =>
    node.send('GET', path, undefined, headers)
  return { node, clock, peer, admin, authority, signer, headersOf, read }
}

it('allows a peer to read checkpoint, blocks, consistency and tiles without a token', async () => {
  const { node, clock, peer, admin, read } = await guarded()
  const { serverId } = node.service
  const source = new PeerClient({
    url: node.url,
    serverId,
    allowPrivate: true,
    signer: new NodeSigner(peer, clock),
  })
  expect(await source.checkpoint()).toBe(await node.service.log.checkpoint())
  const { ledgers } = (await read(`/api/ledgers?serverid=${serverId}&proof=1`, admin)).json
  const page = await source.blocks(0, 9)
  expect(page.blocks().map(({ id }) => id)).toEqual(ledgers.map(({ id }: { id: string }) => id))
  expect(await source.consistency(3, 9)).toEqual((await node.service.log.consistency(3, 9)).proof)
  const tile = await node.service.log.tile('0/000.p/9')
  expect(Buffer.from(await source.tile({ level: 0, index: 0, width: 9 }))).toEqual(tile)
  const unsigned = new PeerClient({ url: node.url, serverId, allowPrivate: true })
  await expect(unsigned.checkpoint()).rejects.toThrow('answered 401 with TOKEN_NEEDED')
})

it('rejects all other requests that have only the signature of a peer', async () => {
  const { node, headersOf, read } = await guarded()
  const { serverId } = node.service
  for (const path of [
    '/api/dbs',
    '/api/serverid',
    '/api/fruit',
    '/api/fruit/1',
    '/api/fruit/1/history',
    '/api/fruit/1/proof',
    '/api/fruit/1/attachments',
    `/api/ledgers/${serverId}/changes`,
    `/api/ledgers/${serverId}/vkey`,
    '/api/config/peers',
    '/api/config/indexes',
    '/metrics',
  ]) {
    const reply = await read(path, headersOf(path))
    expect([path, reply.status, reply.json?.code]).toEqual([path, 401, 'TOKEN_NEEDED'])
  }
  const headers = headersOf('/api/ledgers')
  const changed = await node.send('POST', '/api/ledgers', { entries: [] }, headers)
  expect([changed.status, changed.json.code]).toEqual([401, 'TOKEN_NEEDED'])
})

it('rejects a signature made for another key, path, query, host, body or time, and rejects a repeated request', async () => {
  const { node, clock, authority, signer, headersOf, read } = await guarded()
  const { serverId } = node.service
  const path = `/api/ledgers?serverid=${serverId}&limit=1`
  const stranger = keyPair()
  const elsewhere = { method: 'GET', path: '/api/ledgers', query: path.slice(path.indexOf('?')) }
  const refusals: [string, Record<string, string>][] = [
    ['another key', headersOf(path, { privateKey: stranger.privateKey })],
    ['no peer', headersOf(path, { ...stranger, keyId: logOrigin(stranger.serverId) })],
    ['the node itself', headersOf(path, { keyId: logOrigin(serverId) })],
    ['another path', headersOf(path.replace('ledgers', 'dbs'))],
    ['another query', headersOf(path.replace('limit=1', 'limit=2'))],
    ['no query', headersOf('/api/ledgers')],
    ['another host', signatureHeaders({ ...elsewhere, authority: 'b.example' }, NOTHING, signer())],
    [
      'another method',
      signatureHeaders({ ...elsewhere, authority, method: 'POST' }, NOTHING, signer()),
    ],
    ['a body', headersOf(path, {}, Buffer.from('x'))],
    ['old', headersOf(path, { nowMs: clock.now() - 61_000 })],
    ['to come', headersOf(path, { nowMs: clock.now() + 31_000 })],
    ['half a signature', { 'signature-input': headersOf(path)['signature-input'] ?? '' }],
    ['nonsense', { 'signature-input': 'sig1=()', signature: 'sig1=::' }],
  ]
  for (const [what, headers] of refusals) {
    const reply = await read(path, headers)
    expect([what, reply.status, reply.json]).toEqual([
      what,
      401,
      { status: false, code: 'SIGNATURE_REFUSED', message: expect.any(String) },
    ])
  }
  // The signature also covers text after a second question mark.
  const longer = await read(`${path}?&offset=3`, headersOf(path))
  expect([longer.status, longer.json.code]).toEqual([401, 'SIGNATURE_REFUSED'])

  const once = headersOf(path)
  expect((await read(path, once)).json.ledgers).toHaveLength(1)
  const again = await read(path, once)
  expect([again.status, again.json.message]).toEqual([
    401,
    'the nonce of the request was used before',
  ])
})

it('accepts a signature for one minute, and accepts its nonce only once in that minute', async () => {
  const { node, clock, headersOf, read } = await guarded()
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  const headers = headersOf(path)
  clock.time += 59_000
  expect((await read(path, headers)).status).toBe(200)
  clock.time += 1_000
  expect((await read(path, headers)).json.message).toBe('the nonce of the request was used before')
  clock.time += 1_000
  expect((await read(path, headers)).json.message).toContain('not valid yet')
})

it('checks only the token of a request that has a token and a signature', async () => {
  const { node, admin, headersOf, read } = await guarded()
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  const bad = await read(path, { ...headersOf(path), authorization: 'Bearer nonsense' })
  expect([bad.status, bad.json.code]).toEqual([401, 'TOKEN_INVALID'])
  const forged = { ...headersOf(path), signature: `sig1=:${'A'.repeat(86)}==:` }
  expect((await read(path, { ...forged, ...admin })).status).toBe(200)
})

it('a removed peer can no longer read', async () => {
  const { node, peer, admin, headersOf, read } = await guarded()
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  expect((await read(path, headersOf(path))).status).toBe(200)
  await node.send('DELETE', `/api/config/peers/${peer.serverId}`, undefined, admin)
  expect((await read(path, headersOf(path))).json.code).toBe('SIGNATURE_REFUSED')
})

/** Verifies the requests of two peers, whose nonces have 16 characters. */
function twoPeers(noncesMax?: number) {
  const clock = new HandClock()
  const peers = [keyPair(), keyPair()] as const
  const keys = new Map(
    peers.map(({ serverId, vkey }) => [logOrigin(serverId), parseVerifierKey(vkey).publicKey]),
  )
  const received = new SignedRequests(
    (keyId) => keys.get(keyId) ?? null,
    clock,
    undefined,
    noncesMax,
  )
  const verify = ({ serverId, privateKey }: ReturnType<typeof keyPair>, nonce: number) => {
    const request = { method: 'GET', authority: 'node:4126', path: '/api', query: '?' }
    const signer = { keyId: logOrigin(serverId), privateKey, nowMs: clock.now() }
    const signed = { ...signer, nonce: `${nonce}`.padStart(16, '0') }
    const headers = { host: 'node:4126', ...signatureHeaders(request, NOTHING, signed) }
    return received.verifyBodiless({ method: 'GET', url: '/api', headers }).then(
      () => 'accepted',
      ({ message }) => message,
    )
  }
  return { clock, peers, verify }
}

it('accepts a nonce once for each key', async () => {
  const { peers, verify } = twoPeers()
  for (const peer of peers) expect(await verify(peer, 1)).toBe('accepted')
  for (const peer of peers) {
    expect(await verify(peer, 1)).toBe('the nonce of the request was used before')
  }
})

it('a peer with many requests exhausts only its own nonces, until they expire', async () => {
  const { clock, peers, verify } = twoPeers(2)
  const [busy, other] = peers
  expect(await verify(busy, 1)).toBe('accepted')
  expect(await verify(busy, 2)).toBe('accepted')
  expect(await verify(busy, 3)).toBe('too many signed requests; try again later')
  expect(await verify(other, 3)).toBe('accepted')
  clock.time += 61_000
  expect(await verify(busy, 3)).toBe('accepted')
})

it('accepts no request again after a restart, and none before the time of its signature', async () => {
  const clock = new HandClock()
  clock.time += 500
  const { serverId, privateKey, vkey } = keyPair()
  const waits: { ms: number; wake: () => void }[] = []
  const schedule = {
    after: (ms: number, wake: () => void) => {
      waits.push({ ms, wake })
      return () => {}
    },
  }
  const started = () => new SignedRequests(() => parseVerifierKey(vkey).publicKey, clock, schedule)
  const request = { method: 'GET', authority: 'node:4126', path: '/api', query: '?' }
  const signed = (nowMs: number) => {
    const nonce = randomBytes(16).toString('base64url')
    const signer = { keyId: logOrigin(serverId), privateKey, nowMs, nonce }
    const headers = { host: 'node:4126', ...signatureHeaders(request, NOTHING, signer) }
    return { method: 'GET', url: '/api', headers }
  }
  const first = started()
  clock.time += 1_000
  const early = signed(clock.now() + 20_000)
  const accepted = first.verify(early)
  await until('the request waits', () => waits.length === 1)
  expect(waits[0]?.ms).toBe(19_500)
  clock.time += 19_500
  waits[0]?.wake()
  await accepted
  clock.time += 1
  const second = started()
  clock.time += 999
  await expect(second.verify(early)).rejects.toThrow('started after the request was signed')
  await expect(second.verify(signed(clock.now()))).resolves.toBeDefined()
})

// Attachments of mirrored chains, over real HTTP: pulled, pushed, forwarded and restored.
import { createHash, randomBytes } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { runDaicho } from './support/daicho.ts'
import {
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { PEERS } from './support/peers.ts'
import { until } from './support/until.ts'

const PART_BYTES = 2 * 1024 * 1024

const shaOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

async function start(options: LedgerNodeOptions = {}): Promise<LedgerNode> {
  const node = await startLedgerNode({ peers: PEERS, clock: systemClock, ...options })
  let isClosed = false
  const close = async () => {
    if (isClosed) return
    isClosed = true
    await node.close()
  }
  onTestFinished(close)
  return { ...node, close }
}

async function attach(node: LedgerNode, name: string, bytes: Uint8Array): Promise<string> {
  const path = `/api/files/a/attachments/${name}`
  const type = { 'content-type': 'application/x-of-ours' }
  expect((await node.send('PUT', path, bytes, type)).status).toBe(200)
  return shaOf(bytes)
}

/** Starts a node with a database `files` and an item `a`. */
async function origin(options: LedgerNodeOptions = {}): Promise<LedgerNode> {
  const node = await start(options)
  await node.send('POST', '/api/files')
  await node.send('POST', '/api/files', { id: 'a' })
  return node
}

async function peer(at: LedgerNode, of: LedgerNode, via: LedgerNode | null = of, push = false) {
  const vkey = of.service.log.verifierKey
  const body = via === null ? { vkey } : { vkey, url: via.url, push }
  expect((await at.send('POST', '/api/config/peers', body)).json).toEqual({ status: true })
}

async function bytesAt(node: LedgerNode, serverId: number, sha256: string, range?: string) {
  const url = `${node.url}/api/ledgers/${serverId}/attachments/${sha256}`
  const reply = await fetch(url, range === undefined ? {} : { headers: { range } })
  return {
    status: reply.status,
    headers: reply.headers,
    bytes: Buffer.from(await reply.arrayBuffer()),
  }
}

const isAt = async (node: LedgerNode, serverId: number, sha256: string) =>
  (await bytesAt(node, serverId, sha256)).status === 200

const absentAt = async (node: LedgerNode, serverId: number, query = '') =>
  (await node.send('GET', `/api/ledgers/${serverId}/attachments${query}`)).json

it('mirrors blobs of any length with the chain, and serves them byte for byte', async () => {
  const node = await origin()
  const { serverId } = node.service
  const mirror = await start()
  const lengths = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 7]
  const all = lengths.map((length) => randomBytes(length))
  for (const [n, bytes] of all.entries()) await attach(node, `n${n}`, bytes)
  // Two entries refer to one blob, which is stored once. Another blob was replaced, but its entry still refers to it.
  const replaced = randomBytes(9)
  await attach(node, 'again', replaced)
  await attach(node, 'again', all[2] ?? replaced)
  await peer(mirror, node)
  for (const bytes of [...all, replaced]) {
    await until('the mirror has the blob', () => isAt(mirror, serverId, shaOf(bytes)))
    const own = await bytesAt(node, serverId, shaOf(bytes))
    const mirrored = await bytesAt(mirror, serverId, shaOf(bytes))
    expect([own.bytes.equals(bytes), mirrored.bytes.equals(bytes)]).toEqual([true, true])
    expect(mirrored.headers.get('etag')).toBe(`"${shaOf(bytes)}"`)
    expect(mirrored.headers.get('content-type')).toBe('application/octet-stream')
  }
  const part = await bytesAt(mirror, serverId, shaOf(all[4] ?? replaced), 'bytes=5-9')
  expect([part.status, part.bytes.equals((all[4] ?? replaced).subarray(5, 10))]).toEqual([
    206,
    true,
  ])
  expect(await absentAt(mirror, serverId)).toMatchObject({ status: true, absent: [], more: false })
  const late = await attach(node, 'late', Buffer.from('late'))
  await until('the mirror has the later blob', () => isAt(mirror, serverId, late))
})

it('distinguishes a missing blob from a blob that no entry refers to, and accepts only digests as names', async () => {
  const folder = temporaryFolder()
  const node = await origin({ folder })
  const { serverId } = node.service
  const lost = await attach(node, 'lost', Buffer.from('lost'))
  await attach(node, 'kept', Buffer.from('kept'))
  rmSync(join(folder, 'attachments', lost.slice(0, 2), lost.slice(2)))
  const path = `/api/ledgers/${serverId}/attachments`
  for (const [at, status, code] of [
    [`${path}/${lost}`, 404, 'CONTENT_ABSENT'],
    [`${path}/${shaOf(Buffer.from('x'))}`, 404, 'CONTENT_UNKNOWN'],
    [`/api/ledgers/7/attachments/${lost}`, 404, 'SERVERID_UNKNOWN'],
    [`/api/ledgers/x/attachments/${lost}`, 400, 'SERVERID_INVALID'],
    [`${path}/${lost.toUpperCase()}`, 400, 'REQUEST_INVALID'],
    [`${path}/..%2Fnode.key`, 400, 'REQUEST_INVALID'],
    [`${path}?limit=0`, 400, 'REQUEST_INVALID'],
    [`${path}?limit=1001`, 400, 'REQUEST_INVALID'],
    [`${path}?after=x`, 400, 'REQUEST_INVALID'],
  ] as const) {
    const reply = await node.send('GET', at)
    expect([at, reply.status, reply.json.code]).toEqual([at, status, code])
  }
  expect(await absentAt(node, serverId)).toEqual({
    status: true,
    absent: [{ sha256: lost, length: 4, size: 0 }],
    after: '3.0',
    more: false,
  })
  expect(await absentAt(node, serverId, '?limit=1')).toMatchObject({ after: '2.0', more: true })
  expect(await absentAt(node, serverId, '?after=2.0')).toMatchObject({ absent: [], after: '3.0' })

  // A mirror of `node` reports this blob as missing, and fetches it when `node` has it again.
  const mirror = await start()
  await peer(mirror, node)
  await until('the blob is listed as missing', async () => {
    const { json } = await mirror.send('GET', '/api/config/peers')
    return json.peers[0].absent === 1 && json.peers[0].state === 'current'
  })
  expect(await absentAt(mirror, serverId)).toMatchObject({ absent: [{ sha256: lost }] })
  expect((await bytesAt(mirror, serverId, lost)).status).toBe(404)
  expect((await mirror.send('GET', '/metrics')).text).toMatch(
    /daicho_peer_absent_contents\{[^}]*\} 1\n/,
  )
  writeFileSync(join(folder, 'attachments', lost.slice(0, 2), lost.slice(2)), 'lost')
  await until('the mirror has the blob', () => isAt(mirror, serverId, lost))
  await until('no blob is missing', async () => {
    return (await mirror.send('GET', '/api/config/peers')).json.peers[0].absent === 0
  })
})

it("verify counts missing blobs of a mirror, and reports damaged blobs and missing blobs of the node's own chain as faults", async () => {
  const [folder, ownFolder] = [temporaryFolder(), temporaryFolder()]
  const node = await origin({ folder: ownFolder })
  const { serverId } = node.service
  const [kept, lost] = [Buffer.from('kept'), Buffer.from('lost')]
  await attach(node, 'kept', kept)
  await attach(node, 'lost', lost)
  const keeper = await start({ folder })
  await peer(keeper, node)
  for (const bytes of [kept, lost]) {
    await until('the mirror has the blob', () => isAt(keeper, serverId, shaOf(bytes)))
  }
  await keeper.send('DELETE', `/api/config/peers/${serverId}`)
  await keeper.close()
  const mirror = join(folder, 'mirrors', `${serverId}`)
  const whole = await runDaicho(['verify', mirror, '--json'])
  expect([whole.code, JSON.parse(whole.stdout)]).toMatchObject([
    0,
    { status: true, contents: 2, contentBytes: 8, absent: 0 },
  ])
  const place = (bytes: Buffer) =>
    join(mirror, 'attachments', shaOf(bytes).slice(0, 2), shaOf(bytes).slice(2))
  rmSync(place(lost))
  const lacking = await runDaicho(['verify', mirror, '--json'])
  expect([lacking.code, JSON.parse(lacking.stdout)]).toMatchObject([
    0,
    { status: true, blocks: 4, contents: 1, contentBytes: 4, absent: 1, finding: null },
  ])
  expect((await runDaicho(['verify', mirror])).stdout).toMatch(
    /^absent {5}1 blob: the running node fetches/m,
  )
  // A missing blob of the node's own chain is a fault, even if the folder was copied from a mirror.
  copyFileSync(join(ownFolder, 'node.key'), join(mirror, 'node.key'))
  const own = await runDaicho(['verify', mirror])
  expect([own.code, own.stdout]).toEqual([
    1,
    expect.stringContaining(`blob ${shaOf(lost)} is missing`),
  ])
  rmSync(join(mirror, 'node.key'))
  writeFileSync(place(kept), 'bent')
  const bent = await runDaicho(['verify', mirror])
  expect([bent.code, bent.stdout]).toEqual([
    1,
    expect.stringContaining(`blob ${shaOf(kept)} does not match its SHA-256`),
  ])
})

it('forwards blobs from mirror to mirror, and does not accept changed blobs', async () => {
  const node = await origin()
  const { serverId } = node.service
  const folder = temporaryFolder()
  const [middle, last] = [await start({ folder }), await start()]
  await peer(middle, node)
  const [good, bad] = [randomBytes(PART_BYTES + 3), Buffer.from('good as well')]
  await attach(node, 'good', good)
  await attach(node, 'bad', bad)
  for (const bytes of [good, bad]) {
    await until('the middle node has the blob', () => isAt(middle, serverId, shaOf(bytes)))
  }
  const sha256 = shaOf(bad)
  const path = join(
    folder,
    'mirrors',
    `${serverId}`,
    'attachments',
    sha256.slice(0, 2),
    sha256.slice(2),
  )
  writeFileSync(path, 'evil as well')
  await peer(last, node, middle)
  await until('the last node has the blob', () => isAt(last, serverId, shaOf(good)))
  expect((await bytesAt(last, serverId, shaOf(good))).bytes.equals(good)).toBe(true)
  await until('the changed blob is listed as missing', async () => {
    return (await last.send('GET', '/api/config/peers')).json.peers[0].absent === 1
  })
  expect((await bytesAt(last, serverId, sha256)).status).toBe(404)
})

it('an unreachable node pushes its blobs, even if both nodes require tokens', async () => {
  const tokens = await openTokens({ clock: systemClock, folder: null, secret: null })
  const scopes = ['db:*:admin', 'ledger:read', 'node:admin', 'node:sync']
  const { token } = await issueApiToken(tokens, { subject: 'test', scopes, lifeSeconds: 3_600 })
  const withToken = (node: LedgerNode): LedgerNode => ({
    ...node,
    send: (method, path, body, headers) =>
      node.send(method, path, body, { ...headers, authorization: `Bearer ${token}` }),
  })
  const folder = temporaryFolder()
  const [open, hidden] = [await start({ tokens }), await start({ tokens, folder })].map(withToken)
  if (open === undefined || hidden === undefined) throw new Error('setup failed')
  const { serverId } = hidden.service
  await hidden.send('POST', '/api/files')
  await hidden.send('POST', '/api/files', { id: 'a' })
  const all = [0, 5, PART_BYTES, 2 * PART_BYTES + 1].map((length) => randomBytes(length))
  for (const [n, bytes] of all.entries()) await attach(hidden, `n${n}`, bytes)
  const lost = await attach(hidden, 'lost', Buffer.from('lost'))
  rmSync(join(folder, 'attachments', lost.slice(0, 2), lost.slice(2)))
  await peer(open, hidden, null)
  await peer(hidden, open, open, true)
  const path = (sha256: string) => `/api/ledgers/${serverId}/attachments/${sha256}`
  for (const bytes of all) {
    const sha256 = shaOf(bytes)
    await until(
      'the blob was pushed',
      async () => (await open.send('GET', path(sha256))).status === 200,
    )
    const reply = await fetch(open.url + path(sha256), { headers: { 'x-access-token': token } })
    expect(Buffer.from(await reply.arrayBuffer()).equals(bytes)).toBe(true)
  }
  expect(await absentAt(open, serverId)).toMatchObject({ absent: [{ sha256: lost }], more: false })
  const late = await attach(hidden, 'late', Buffer.from('late'))
  await until(
    'the later blob was pushed',
    async () => (await open.send('GET', path(late))).status === 200,
  )
})

/** Starts a proxy in front of `node` that records the requested ranges of blobs. */
async function startProxy(node: LedgerNode): Promise<{ url: string; requestedRanges: string[] }> {
  const requestedRanges: string[] = []
  const proxy = createServer((incoming, reply) => {
    const { method, url = '', headers } = incoming
    if (url.includes('/attachments/')) requestedRanges.push(String(headers.range))
    const onward = request(node.url + url, { method, headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(reply)
    })
    incoming.pipe(onward)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    requestedRanges,
  }
}

it('a mirror and a restore get all blobs but the one that their source cannot read, and count that one', async () => {
  const [folder, sourceFolder] = [temporaryFolder(), temporaryFolder()]
  const node = await origin({ folder })
  const { serverId } = node.service
  const bytes = [...'abcde'].map((text) => Buffer.from(text))
  for (const [n, one] of bytes.entries()) await attach(node, `n${n}`, one)
  const source = await start({ folder: sourceFolder })
  await peer(source, node)
  for (const one of bytes) await until('it has the blob', () => isAt(source, serverId, shaOf(one)))
  const lost = shaOf(bytes[1] ?? Buffer.of())
  await source.send('DELETE', `/api/config/peers/${serverId}`)
  // The file becomes a folder, so the source cannot read it.
  const mirror = join(sourceFolder, 'mirrors', `${serverId}`)
  const path = join(mirror, 'attachments', lost.slice(0, 2), lost.slice(2))
  rmSync(path)
  mkdirSync(path)
  expect((await bytesAt(source, serverId, lost)).status).toBeGreaterThanOrEqual(404)

  const last = await start()
  await peer(last, node, source)
  await until('the other blobs are mirrored, and one is missing', async () => {
    const { json } = await last.send('GET', '/api/config/peers')
    return json.peers[0].absent === 1 && json.peers[0].state === 'current'
  })
  for (const one of bytes) {
    expect((await bytesAt(last, serverId, shaOf(one))).status).toBe(shaOf(one) === lost ? 404 : 200)
  }
  await node.close()
  const restored = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(restored, 'node.key'))
  const command = ['restore', '--from', source.url, '--serverid', `${serverId}`, '--json']
  const run = () => runDaicho([...command, '--folder', restored], { PEERS_ALLOW_PRIVATE: '1' })
  for (const absent of [1, 1, 0]) {
    // The last time, the source has the blob again.
    if (absent === 0) rmSync(path, { recursive: true })
    if (absent === 0) writeFileSync(path, 'b')
    const { code, stdout } = await run()
    const status = absent === 0
    expect([code, JSON.parse(stdout)]).toMatchObject([absent, { status, blocks: 7, absent }])
  }
  expect(await verifyFolder(restored)).toMatchObject({ finding: null, blocks: 7 })
})

it('resumes an interrupted blob transfer, even after a restart', async () => {
  const bytes = randomBytes(3 * PART_BYTES + 11)
  const sha256 = shaOf(bytes)
  const folder = temporaryFolder()
  const node = await origin()
  const { serverId } = node.service
  await attach(node, 'large', bytes)
  const first = await start({ folder })
  await peer(first, node)
  await until('the mirror has the blob', () => isAt(first, serverId, sha256))
  await first.send('DELETE', `/api/config/peers/${serverId}`)
  await first.close()
  // Creates the folder of a mirror that was killed after it had received `have` bytes of the blob.
  const have = 2 * PART_BYTES + 12
  const contents = join(folder, 'mirrors', `${serverId}`, 'attachments')
  expect(existsSync(join(contents, 'incoming'))).toBe(false)
  rmSync(join(contents, sha256.slice(0, 2)), { recursive: true })
  mkdirSync(join(contents, 'incoming'))
  writeFileSync(join(contents, 'incoming', sha256), bytes.subarray(0, have))

  const again = await start({ folder })
  const { url, requestedRanges } = await startProxy(node)
  await peer(again, node, { ...node, url })
  await until('the mirror has the blob', () => isAt(again, serverId, sha256))
  expect(requestedRanges).toEqual([`bytes=${have}-${bytes.length - 1}`])
  expect((await bytesAt(again, serverId, sha256)).bytes.equals(bytes)).toBe(true)
  await again.close()
  expect(await verifyFolder(join(folder, 'mirrors', `${serverId}`))).toMatchObject({
    finding: null,
  })
})

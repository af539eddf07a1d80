// Tests the log over HTTP. The tests verify the log only with public data.
import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { until } from '../../../test/support/until.ts'
import {
  entriesOfBundle,
  equalBytes,
  leafHash,
  nodeVerifySignature,
  openCheckpoint,
  parseVerifierKey,
  verifyConsistency,
  verifyProofFile,
} from '../../chain/index.ts'

async function keyOf(node: LedgerNode) {
  const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)
  expect(reply.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  return parseVerifierKey(reply.text.trimEnd())
}

async function checkpointOf(node: LedgerNode) {
  const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/checkpoint`)
  expect([
    reply.status,
    reply.headers.get('content-type'),
    reply.headers.get('cache-control'),
  ]).toEqual([200, 'text/plain; charset=utf-8', 'max-age=1'])
  return openCheckpoint(nodeVerifySignature, await keyOf(node), reply.text)
}

async function bytesOf(node: LedgerNode, path: string): Promise<Buffer> {
  const reply = await fetch(`${node.url}/api/ledgers/${node.service.serverId}/tile/${path}`)
  expect([path, reply.status, reply.headers.get('content-type')]).toEqual([
    path,
    200,
    'application/octet-stream',
  ])
  expect(reply.headers.get('cache-control')).toBe('max-age=31536000, immutable')
  return Buffer.from(await reply.arrayBuffer())
}

/** Creates the given number of blocks: one for the database, then one for each item. */
async function fill(node: LedgerNode, db: string, blocks: number): Promise<void> {
  await node.send('POST', `/api/${db}`)
  for (let n = 1; n < blocks; n += 1) await node.send('POST', `/api/${db}`, { id: `${n}`, n })
}

it('an empty log has a signed head of size 0', async () => {
  const node = await startLedgerNode()
  const checkpoint = await checkpointOf(node)
  expect(checkpoint).toMatchObject({ origin: `daicho/${node.service.serverId}`, size: 0 })
  expect(Buffer.from(checkpoint.root).toString('hex')).toMatch(/^e3b0c442/)
  await node.close()
})

it('tiles, entry bundles and checkpoint match, and each log entry is the header of a block', async () => {
  const node = await startLedgerNode()
  await fill(node, 'fruit', 300)
  // A checkpoint may be 100 ms old.
  await until('a checkpoint of all blocks', async () => (await checkpointOf(node)).size === 300)
  const { root } = await checkpointOf(node)
  const full = await bytesOf(node, '0/000')
  expect(full).toHaveLength(8_192)
  const partial = await bytesOf(node, '0/001.p/44')
  expect(partial).toHaveLength(44 * 32)
  const upper = await bytesOf(node, '1/000.p/1')
  const bundles = [await bytesOf(node, 'entries/000'), await bytesOf(node, 'entries/001.p/44')]
  const entries = bundles.flatMap((bundle) => entriesOfBundle(bundle) ?? [])
  const leaves = Buffer.concat([full, partial])
  expect(entries).toHaveLength(300)
  for (const [at, entry] of entries.entries()) {
    expect(equalBytes(leafHash(entry), leaves.subarray(at * 32, at * 32 + 32))).toBe(true)
  }
  const { ledgers } = (await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}`))
    .json
  for (const [at, entry] of entries.entries()) {
    const header = JSON.parse(Buffer.from(entry).toString())
    expect([header.height, header.prev_id]).toEqual([at, ledgers[at].prev_id])
  }
  // Computes the upper tile from the full lower tile, and the root from all leaf hashes.
  const fold = (hashes: Buffer[]): Buffer => {
    if (hashes.length === 1) return hashes[0] ?? Buffer.alloc(0)
    const half = 2 ** (Math.ceil(Math.log2(hashes.length)) - 1)
    const pair = [Buffer.of(1), fold(hashes.slice(0, half)), fold(hashes.slice(half))]
    return createHash('sha256').update(Buffer.concat(pair)).digest()
  }
  const hashes = Array.from({ length: 300 }, (_, at) => leaves.subarray(at * 32, at * 32 + 32))
  expect(fold(hashes.slice(0, 256)).equals(upper)).toBe(true)
  expect(fold(hashes).equals(root)).toBe(true)

  // The partial tiles of smaller sizes are also available.
  expect((await bytesOf(node, '0/000.p/7')).equals(full.subarray(0, 7 * 32))).toBe(true)
  for (const path of [
    ...['0/002', '0/001', '0/001.p/45', '1/000.p/2', '1/000', '2/000.p/1', 'entries/001'],
    ...['0/0', 'x', '', '0/000.p/256', '99/000'],
  ]) {
    const reply = await node.send('GET', `/api/ledgers/${node.service.serverId}/tile/${path}`)
    expect([path, reply.status, reply.json?.code]).toEqual([path, 404, 'TILE_UNKNOWN'])
  }
  await node.close()
})

it('compresses entry bundles, but not hashes, for clients that accept gzip', async () => {
  const node = await startLedgerNode()
  await fill(node, 'fruit', 20)
  await checkpointOf(node)
  for (const [path, accepted, encoding] of [
    ['entries/000.p/20', 'gzip', 'gzip'],
    ['entries/000.p/20', 'identity', null],
    ['0/000.p/20', 'gzip', null],
  ] as const) {
    const url = `${node.url}/api/ledgers/${node.service.serverId}/tile/${path}`
    const reply = await fetch(url, { headers: { 'accept-encoding': accepted } })
    expect(reply.headers.get('vary')).toContain('accept-encoding')
    expect([path, reply.headers.get('content-encoding')]).toEqual([path, encoding])
    // Fetch decompresses the reply.
    expect(Buffer.from(await reply.arrayBuffer())).toEqual(await bytesOf(node, path))
  }
  await node.close()
})

it('proves the consistency of any two sizes, and rejects invalid sizes', async () => {
  const node = await startLedgerNode()
  const heads = [await checkpointOf(node)]
  for (let n = 0; n < 20; n += 1) {
    await node.send('POST', `/api/db${n}`)
    heads.push(await checkpointOf(node))
  }
  const path = (query: string) => `/api/ledgers/${node.service.serverId}/consistency?${query}`
  for (const before of heads) {
    for (const after of heads) {
      if (before.size > after.size) continue
      const { json } = await node.send('GET', path(`from=${before.size}&to=${after.size}`))
      expect(json).toMatchObject({ status: true, from: before.size, to: after.size })
      const proof = json.proof.map((hash: string) => Buffer.from(hash, 'base64'))
      expect(verifyConsistency(before, after, proof)).toBe(true)
    }
  }
  expect((await node.send('GET', path('from=3'))).json).toMatchObject({ from: 3 })
  for (const [query, status] of [
    ['from=4&to=3', 404],
    ['from=0&to=22', 404],
    ['from=99', 404],
    ['from=-1', 400],
    ['from=x', 400],
    ['', 400],
    ['from=0&to=1e400', 400],
  ] as const) {
    const reply = await node.send('GET', path(query))
    expect([query, reply.status, reply.json.status]).toEqual([query, status, false])
  }
  const other = await node.send('GET', '/api/ledgers/7/checkpoint')
  expect([other.status, other.json.code]).toEqual([404, 'SERVERID_UNKNOWN'])
  await node.close()
})

it('a proof of an item verifies offline, with its content, position and time', async () => {
  const node = await startLedgerNode()
  await fill(node, 'fruit', 5)
  const key = await keyOf(node)
  const written = await node.send('POST', '/api/fruit', [
    { id: 'plum', price: 3 },
    { id: '李', price: 4 },
    { id: 'fig', price: 5 },
  ])
  expect(written.status).toBe(200)
  for (const [index, id] of ['plum', '李', 'fig'].entries()) {
    const reply = await node.send('GET', `/api/fruit/${encodeURIComponent(id)}/proof`)
    expect([reply.status, reply.headers.get('content-disposition')]).toEqual([
      200,
      'attachment; filename="entry.tlog-proof"',
    ])
    expect(await verifyProofFile(nodeVerifySignature, key, reply.text)).toMatchObject({
      serverId: node.service.serverId,
      height: 5,
      index,
      timestamp: 1_800_000_000_000,
      entry: { method: 'create_item', db: 'fruit', item: { id, price: 3 + index } },
      checkpoint: { size: 6 },
    })
  }
  await node.send('POST', '/api/fruit/plum', { price: 9 })
  const now = (await node.send('GET', '/api/fruit/plum/proof')).text
  expect(await verifyProofFile(nodeVerifySignature, key, now)).toMatchObject({
    height: 6,
    entry: { item: { price: 9 } },
  })
  const before = (await node.send('GET', '/api/fruit/plum/proof?position=5.0')).text
  expect(await verifyProofFile(nodeVerifySignature, key, before)).toMatchObject({
    height: 5,
    entry: { item: { price: 3 } },
  })
  const code = async (path: string) => {
    const { status, json } = await node.send('GET', path)
    return [status, json.code]
  }
  expect(await code('/api/fruit/none/proof')).toEqual([404, 'ITEM_NOT_FOUND'])
  expect(await code('/api/none/plum/proof')).toEqual([404, 'DATABASE_NOT_FOUND'])
  expect(await code('/api/fruit/plum/proof?position=5.1')).toEqual([400, 'POSITION_INVALID'])
  expect(await code('/api/fruit/plum/proof?position=5.99999')).toEqual([400, 'POSITION_INVALID'])
  expect(await code('/api/fruit/plum/proof?position=99.0')).toEqual([400, 'POSITION_INVALID'])
  expect((await code('/api/fruit/plum/proof?position=x'))[0]).toBe(400)
  await node.close()
})

it('proves entries of deleted databases of a name by their position', async () => {
  const node = await startLedgerNode()
  await fill(node, 'fruit', 0)
  await node.send('POST', '/api/fruit', { id: 'plum', secret: 1 })
  await node.send('DELETE', '/api/fruit')
  const key = await keyOf(node)
  const proof = async (query: string) => {
    const { text } = await node.send('GET', `/api/fruit/plum/proof${query}`)
    return verifyProofFile(nodeVerifySignature, key, text)
  }
  const first = { height: 1, entry: { item: { id: 'plum', secret: 1 } } }
  expect(await proof('?position=1.0')).toMatchObject(first)
  const { status, json } = await node.send('GET', '/api/fruit/plum/proof')
  expect([status, json.code]).toEqual([404, 'DATABASE_NOT_FOUND'])
  await fill(node, 'fruit', 0)
  await node.send('POST', '/api/fruit', { id: 'plum', secret: 2 })
  expect(await proof('?position=1.0')).toMatchObject(first)
  expect(await proof('?position=4.0')).toMatchObject({ entry: { item: { secret: 2 } } })
  await node.close()
})

it('each head continues the previous head across restarts, and earlier proofs still verify', async () => {
  const folder = temporaryFolder()
  let node = await startLedgerNode({ folder })
  await fill(node, 'fruit', 4)
  const key = await keyOf(node)
  const first = await checkpointOf(node)
  const proof = (await node.send('GET', '/api/fruit/2/proof')).text
  await node.close()
  node = await startLedgerNode({ folder })
  expect(await checkpointOf(node)).toEqual(first)
  await fill(node, 'veg', 4)
  const second = await checkpointOf(node)
  const { json } = await node.send(
    'GET',
    `/api/ledgers/${node.service.serverId}/consistency?from=${first.size}&to=${second.size}`,
  )
  const hashes = json.proof.map((hash: string) => Buffer.from(hash, 'base64'))
  expect(verifyConsistency(first, second, hashes)).toBe(true)
  expect(await verifyProofFile(nodeVerifySignature, key, proof)).toMatchObject({
    entry: { item: { n: 2 } },
  })
  await node.close()
})

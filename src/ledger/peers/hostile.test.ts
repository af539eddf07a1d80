// Tests that no reply or push of another node ends or blocks this node, and that no source delays another.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import {
  type HostileAnswer,
  hugeLists,
  startHostileNode,
} from '../../../test/support/hostile-node.ts'
import {
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
  temporaryFolder,
} from '../../../test/support/ledger-node.ts'
import { mirror, PEERS } from '../../../test/support/peers.ts'
import { until } from '../../../test/support/until.ts'
import { systemClock } from '../../base/clock.ts'
import { logOrigin } from '../../chain/index.ts'
import { signatureHeaders } from './signed-request.ts'

/** Bytes of a page whose values do not fit into the memory of the thread. */
const HUGE_BYTES = 30_000_000

async function start(options: LedgerNodeOptions = {}): Promise<LedgerNode> {
  const node = await startLedgerNode({ peers: PEERS, clock: systemClock, ...options })
  onTestFinished(() => node.close())
  return node
}

async function hostile(answer: HostileAnswer) {
  const node = await startHostileNode(answer)
  onTestFinished(() => node.close())
  return node
}

const stateOf = async (node: LedgerNode, serverId: number) => {
  const { json } = await node.send('GET', '/api/config/peers')
  return json.peers.find((one: { serverid: number }) => one.serverid === serverId)
}

it('refuses a page of millions of values from a peer, and mirrors its other peers meanwhile', async () => {
  const lists = hugeLists(HUGE_BYTES)
  const pages = ['empty objects as blocks', 'empty objects as entries', 'timestamps'].map((what) =>
    gzipSync(lists[what]?.page ?? '', { level: 1 }),
  )
  const served: number[] = []
  const nodes = await Promise.all(
    pages.map((page, n) =>
      hostile((path, reply, _request, node) => {
        if (path.endsWith('/checkpoint')) return reply.end(node.note(1))
        if (path !== '/api/ledgers') return reply.writeHead(404).end()
        served.push(n)
        return reply.writeHead(200, { 'content-encoding': 'gzip' }).end(page)
      }),
    ),
  )
  const [node, good] = [await start(), await start()]
  await good.send('POST', '/api/fruit')
  for (const { vkey, url } of nodes) await node.send('POST', '/api/config/peers', { vkey, url })
  await mirror(node, good)
  for (const { serverId } of nodes) {
    await until('the page is refused', async () => {
      const { state, error } = await stateOf(node, serverId)
      return state === 'failing' && /^(REPLY_MALFORMED|BLOCK_REFUSED)$/.test(error.code)
    })
  }
  expect(new Set(served).size).toBe(pages.length)
  await until('the good peer is mirrored', async () => {
    return (await stateOf(node, good.service.serverId)).state === 'current'
  })
})

it('refuses a signed push of millions of values', async () => {
  const node = await start()
  const { vkey, serverId, privateKey } = await hostile(() => {})
  await node.send('POST', '/api/config/peers', { vkey })
  const path = `/api/ledgers/${serverId}`
  for (const [what, { push }] of Object.entries(hugeLists(HUGE_BYTES / 3))) {
    const body = Buffer.from(push)
    const headers = signatureHeaders(
      { method: 'POST', authority: new URL(node.url).host, path, query: '?' },
      body,
      { keyId: logOrigin(serverId), privateKey, nowMs: Date.now(), nonce: crypto.randomUUID() },
    )
    const reply = await node.send('POST', path, body, headers)
    expect([what, reply.status, reply.json.code]).toEqual([what, 400, 'PUSH_INVALID'])
  }
  expect((await node.send('GET', '/readyz')).status).toBe(200)
})

it('mirrors a chain from a good source while another source of the chain never ends its replies', async () => {
  const [node, good] = [await start(), await start()]
  const { serverId } = good.service
  await good.send('POST', '/api/fruit')
  let waiting = 0
  const slow = await hostile(async (path, reply) => {
    if (path.endsWith('/checkpoint')) return reply.end(await good.service.log.checkpoint())
    waiting += 1
    reply.on('close', () => {
      waiting -= 1
    })
    return reply.writeHead(200).write('{"status":true,')
  })
  await mirror(node, good, slow)
  await until('the slow source is asked for blocks', () => waiting > 0)
  await mirror(node, good)
  await until('the chain is mirrored', async () => {
    const peers = (await node.send('GET', '/api/config/peers')).json.peers
    return peers.some((peer: { state: string; blocks: number }) => peer.state === 'current')
  })
  expect(waiting).toBeGreaterThan(0)
  // Removing the peers ends their requests at once.
  await node.send('DELETE', `/api/config/peers/${serverId}`)
  await until('no request is open', () => waiting === 0)
})

it('shows no old error of a peer that is removed and added again', async () => {
  const node = await start()
  let answers = true
  const { vkey, url, serverId } = await hostile((_path, reply) => {
    if (answers) reply.writeHead(500).end()
  })
  const add = () => node.send('POST', '/api/config/peers', { vkey, url })
  await add()
  await until('the peer fails', async () => (await stateOf(node, serverId)).state === 'failing')
  answers = false
  await node.send('DELETE', `/api/config/peers/${serverId}`)
  await add()
  expect(await stateOf(node, serverId)).toMatchObject({ state: 'behind', error: null })
})

it('mirrors the other peers, starts, and shows the error if the folder of one mirror is unusable', async () => {
  const folder = temporaryFolder()
  const [broken, good] = [await start(), await start()]
  await good.send('POST', '/api/fruit')
  mkdirSync(join(folder, 'mirrors'), { recursive: true })
  writeFileSync(join(folder, 'mirrors', `${broken.service.serverId}`), 'a file')
  const node = await start({ folder })
  // Without a URL, the peer pushes its chain.
  await node.send('POST', '/api/config/peers', { vkey: broken.service.log.verifierKey })
  await mirror(node, good)
  await until('the good peer is mirrored', async () => {
    return (await stateOf(node, good.service.serverId)).state === 'current'
  })
  expect(await stateOf(node, broken.service.serverId)).toMatchObject({
    state: 'failing',
    error: { code: 'FOLDER_UNUSABLE' },
  })
})

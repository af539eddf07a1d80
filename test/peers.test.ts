// Nodes that mirror each other's chains, over real HTTP.
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { PeerClient, restoreChain } from '../src/ledger/core.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from './support/ledger-node.ts'
import { backupOf, mirror, PEERS } from './support/peers.ts'
import { until } from './support/until.ts'

async function vkeyOf(node: LedgerNode, serverId = node.service.serverId): Promise<string> {
  return (await node.send('GET', `/api/ledgers/${serverId}/vkey`)).text.trim()
}

/** Returns all blocks of the chain of `serverId` with their proofs, as `node` serves them. */
async function chainAt(node: LedgerNode, serverId: number): Promise<string> {
  return (await node.send('GET', `/api/ledgers?serverid=${serverId}&proof=1`)).text
}

async function peersOf(node: LedgerNode): Promise<object[]> {
  return (await node.send('GET', '/api/config/peers')).json.peers
}

it('three nodes that write concurrently end with equal copies of three chains, and share no databases', async () => {
  const nodes = await Promise.all([1, 2, 3].map(() => startLedgerNode({ peers: PEERS })))
  for (const at of nodes) for (const of of nodes) if (at !== of) await mirror(at, of)
  await Promise.all(
    nodes.map(async (node, n) => {
      await node.send('POST', `/api/db${n}`)
      for (let item = 0; item < 60; item += 1) await node.send('POST', `/api/db${n}`, { item })
    }),
  )
  for (const of of nodes) {
    const { serverId } = of.service
    const own = await chainAt(of, serverId)
    for (const at of nodes) {
      await until('the mirror is the chain', async () => (await chainAt(at, serverId)) === own)
      await until('the mirror has the signed head', async () => {
        const path = `/api/ledgers/${serverId}/checkpoint`
        return (await at.send('GET', path)).text === (await of.send('GET', path)).text
      })
      expect(await vkeyOf(at, serverId)).toBe(await vkeyOf(of))
      const tile = `/api/ledgers/${serverId}/tile/0/000.p/61`
      expect((await at.send('GET', tile)).text).toBe((await of.send('GET', tile)).text)
    }
    const { json } = await of.send('GET', '/api/dbs')
    expect(json.dbs).toHaveLength(1)
  }
  const current = { state: 'current', blocks: 61, lag: 0, error: null, fixed: false }
  await expect.poll(() => peersOf(nodes[0] as LedgerNode)).toMatchObject([current, current])
  await Promise.all(nodes.map((node) => node.close()))
})

it('a node mirrors a chain from another mirror, without contact to the node that writes the chain', async () => {
  const [first, middle, last] = [
    await startLedgerNode({ peers: PEERS }),
    await startLedgerNode({ peers: PEERS }),
    await startLedgerNode({ peers: PEERS }),
  ]
  const { serverId } = first.service
  await first.send('POST', '/api/fruit')
  await mirror(middle, first)
  await mirror(last, first, middle)
  await until('the last node has the chain', async () => {
    return (await chainAt(last, serverId)) === (await chainAt(first, serverId))
  })
  await Promise.all([first, middle, last].map((node) => node.close()))
})

it('keeps mirrors and added peers across a restart, even while a peer is unreachable', async () => {
  const folder = temporaryFolder()
  const origin = await startLedgerNode({ folder: temporaryFolder(), peers: PEERS })
  const { serverId } = origin.service
  await origin.send('POST', '/api/fruit')
  const node = await startLedgerNode({ folder, peers: PEERS })
  await mirror(node, origin)
  const chain = await chainAt(origin, serverId)
  await until('the chain is mirrored', async () => (await chainAt(node, serverId)) === chain)
  await until('the mirror has the signed head', async () => {
    return (await node.send('GET', `/api/ledgers/${serverId}/checkpoint`)).status === 200
  })
  await node.close()
  await origin.close()

  const again = await startLedgerNode({ folder, peers: PEERS })
  expect(await chainAt(again, serverId)).toBe(chain)
  expect((await again.send('GET', `/api/ledgers/${serverId}/checkpoint`)).status).toBe(200)
  await until('the failure is shown', async () => {
    const { json } = await again.send('GET', '/api/config/peers')
    return json.peers[0].state === 'failing' && json.peers[0].error.code === 'UNREACHABLE'
  })
  // A removed peer is not contacted again, but the blocks of its mirror stay.
  expect((await again.send('DELETE', `/api/config/peers/${serverId}`)).status).toBe(200)
  expect((await again.send('DELETE', `/api/config/peers/${serverId}`)).status).toBe(404)
  expect((await again.send('GET', '/api/config/peers')).json.peers).toEqual([])
  expect(await chainAt(again, serverId)).toBe(chain)
  await again.close()
})

it('rejects invalid keys and addresses of peers', async () => {
  const node = await startLedgerNode({ peers: PEERS })
  const other = await startLedgerNode()
  const own = await vkeyOf(node)
  const vkey = await vkeyOf(other)
  for (const peer of [
    { vkey: own, url: other.url },
    { vkey: vkey.replace('+', '+0'), url: other.url },
    { vkey: vkey.replace(/\d/, '0'), url: other.url },
    { vkey, url: 'ftp://b.example' },
    { vkey, url: `${other.url}/api` },
    { vkey, url: 'http://user:pass@b.example' },
    { vkey, url: `${other.url}?a=1` },
    { vkey, url: 'http://' },
    { vkey, push: true },
    { vkey, url: other.url, more: 1 },
  ]) {
    const reply = await node.send('POST', '/api/config/peers', peer)
    expect([peer, reply.status, reply.json.status]).toEqual([peer, 400, false])
  }
  expect((await node.send('GET', '/api/config/peers')).json.peers).toEqual([])
  await Promise.all([node.close(), other.close()])
})

it('a node that was restored from an old backup rejects writes until it has its newest blocks again', async () => {
  const folder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.close()
  const old = backupOf(folder)

  const keeper = await startLedgerNode({ peers: PEERS })
  const node = await startLedgerNode({ folder, peers: PEERS })
  const { serverId } = node.service
  await node.send('POST', '/api/fruit', { id: 'fig', ripe: true })
  await node.send('POST', '/api/fruit', { id: 'plum' })
  await mirror(keeper, node)
  const chain = await chainAt(node, serverId)
  await until('the chain is mirrored', async () => (await chainAt(keeper, serverId)) === chain)
  await until('the mirror has the signed head', async () => {
    return (await keeper.send('GET', `/api/ledgers/${serverId}/checkpoint`)).status === 200
  })
  await node.close()

  const fixed = [{ vkey: await vkeyOf(keeper), url: keeper.url }]
  const options = { folder: old, peers: { ...PEERS, fixed } }
  const returned = await startLedgerNode(options)
  const refused = await returned.send('POST', '/api/fruit', { id: 'other' })
  expect([refused.status, refused.json.code]).toEqual([503, 'CHAIN_DOUBTED'])
  expect(refused.json.message).toContain('a peer has 3 blocks of this node')
  expect((await returned.send('GET', '/readyz')).status).toBe(503)
  expect((await returned.send('GET', '/metrics')).text).toContain('daicho_ready 0\n')
  expect((await returned.send('GET', '/api/fruit')).json.items).toEqual([])
  await returned.close()

  // Removes the store, so that the folder contains only the key, as for a restore.
  rmSync(join(old, 'ledger.db'))
  const restore = () =>
    restoreChain({
      ...{ folder: old, serverId, vkey: null, threads: 1, clock: systemClock },
      source: () => new PeerClient({ url: keeper.url, serverId, allowPrivate: true }),
      progress: () => {},
    })
  expect(await restore()).toMatchObject({ own: { blocks: 3, items: 2, finding: null }, absent: 0 })
  // The second restore has nothing to do.
  expect(await restore()).toMatchObject({ own: { blocks: 3, finding: null }, absent: 0 })
  const healed = await startLedgerNode(options)
  expect(await chainAt(healed, serverId)).toBe(chain)
  expect((await healed.send('GET', '/api/fruit/fig')).text).toBe(
    '{"status":true,"item":{"id":"fig","ripe":true}}',
  )
  expect((await healed.send('POST', '/api/fruit', { id: 'other' })).status).toBe(200)
  await mirror(keeper, node, healed)
  await until('the node continues its chain', async () => {
    return (await chainAt(keeper, serverId)) === (await chainAt(healed, serverId))
  })
  await healed.close()
  await keeper.close()
})

it('a node whose pushes are rejected still reads the chain of its peer, and shows the error', async () => {
  const options = { peers: PEERS, clock: systemClock }
  const [open, hidden] = await Promise.all([startLedgerNode(options), startLedgerNode(options)])
  const { serverId } = open.service
  await open.send('POST', '/api/open')
  await hidden.send('POST', '/api/hidden')
  const peer = { vkey: open.service.log.verifierKey, url: open.url, push: true }
  expect((await hidden.send('POST', '/api/config/peers', peer)).status).toBe(200)
  await until('the peer is read', async () => {
    return (await chainAt(hidden, serverId)) === (await chainAt(open, serverId))
  })
  await until('the refusal is shown', async () => {
    const { json } = await hidden.send('GET', '/api/config/peers')
    return json.peers[0].state === 'failing' && json.peers[0].error.code === 'REPLY_REFUSED'
  })
  await Promise.all([open.close(), hidden.close()])
})

it('a node shows the pushed height after a restart, even without further pushes', async () => {
  const folder = temporaryFolder()
  const options = { peers: PEERS, clock: systemClock }
  const open = await startLedgerNode({ ...options, folder })
  const hidden = await startLedgerNode(options)
  const { serverId } = hidden.service
  await hidden.send('POST', '/api/hidden')
  await open.send('POST', '/api/config/peers', { vkey: hidden.service.log.verifierKey })
  const peer = { vkey: open.service.log.verifierKey, url: open.url, push: true }
  await hidden.send('POST', '/api/config/peers', peer)
  await until('the chain is pushed', async () => {
    return (await chainAt(open, serverId)) === (await chainAt(hidden, serverId))
  })
  await hidden.close()
  await open.close()
  const again = await startLedgerNode({ ...options, folder })
  const pushed = { url: null, blocks: 1, lag: 0, error: null }
  await expect.poll(() => peersOf(again)).toMatchObject([pushed])
  await again.close()
})

it('an unreachable node pushes its chain to its peer, and reads the chain of the peer', async () => {
  const options = { peers: PEERS, clock: systemClock }
  const [open, hidden] = await Promise.all([startLedgerNode(options), startLedgerNode(options)])
  const { serverId } = hidden.service
  const vkey = hidden.service.log.verifierKey
  await open.send('POST', '/api/open')
  await hidden.send('POST', '/api/hidden')
  for (let n = 0; n < 40; n += 1) await hidden.send('POST', '/api/hidden', { n })
  expect((await open.send('POST', '/api/config/peers', { vkey })).status).toBe(200)
  const peer = { vkey: open.service.log.verifierKey, url: open.url, push: true }
  expect((await hidden.send('POST', '/api/config/peers', peer)).status).toBe(200)
  const isMirrored = async () =>
    (await chainAt(open, serverId)) === (await chainAt(hidden, serverId))
  await until('the chain is pushed', isMirrored)
  for (let n = 0; n < 20; n += 1) await hidden.send('POST', '/api/hidden', { n })
  await until('the later blocks are pushed', isMirrored)
  await until('the node has read the chain of its peer', async () => {
    const { serverId: other } = open.service
    return (await chainAt(hidden, other)) === (await chainAt(open, other))
  })
  await until('the peer has the signed head', async () => {
    const path = `/api/ledgers/${serverId}/checkpoint`
    return (await open.send('GET', path)).text.startsWith(`daicho/${serverId}\n61\n`)
  })
  const current = { url: null, blocks: 61, lag: 0, state: 'current' }
  await expect.poll(() => peersOf(open)).toMatchObject([current])
  await Promise.all([open.close(), hidden.close()])
})

it('nodes that require tokens mirror each other with signed requests', async () => {
  const tokens = await openTokens({ clock: systemClock, folder: null, secret: null })
  const options = { peers: PEERS, clock: systemClock, tokens }
  const [one, other] = await Promise.all([startLedgerNode(options), startLedgerNode(options)])
  const scopes = ['db:*:admin', 'ledger:read', 'node:admin']
  const { token } = await issueApiToken(tokens, { subject: 'test', scopes, lifeSeconds: 3_600 })
  const admin = { authorization: `Bearer ${token}` }
  const chain = async (node: LedgerNode, serverId: number) =>
    (await node.send('GET', `/api/ledgers?serverid=${serverId}&proof=1`, undefined, admin)).text
  for (const [at, of] of [
    [one, other],
    [other, one],
  ] as const) {
    await at.send('POST', '/api/fruit', undefined, admin)
    for (let n = 0; n < 20; n += 1) await at.send('POST', '/api/fruit', { n }, admin)
    const peer = { vkey: of.service.log.verifierKey, url: of.url }
    expect((await at.send('POST', '/api/config/peers', peer, admin)).status).toBe(200)
  }
  const reader = await issueApiToken(tokens, {
    ...{ subject: 'reader', scopes: ['db:fruit:read'], lifeSeconds: 3_600 },
  })
  for (const written of [one, other]) {
    const { serverId } = written.service
    const own = await chain(written, serverId)
    for (const at of [one, other]) {
      await until('the chain is mirrored', async () => (await chain(at, serverId)) === own)
      // The scope of a database is about that of the node itself, not about one of the same name in a mirrored chain.
      for (const path of [`?serverid=${serverId}&`, `/${serverId}/changes?from=0&`]) {
        const headers = { authorization: `Bearer ${reader.token}` }
        const read = await at.send('GET', `/api/ledgers${path}db=fruit`, undefined, headers)
        expect([read.status, read.text.includes('create_item')]).toEqual(
          at === written ? [200, true] : [403, false],
        )
      }
    }
  }
  await Promise.all([one.close(), other.close()])
})

it('a mirror and a node detect a second node with the same key, show both heads, and no longer extend the chain', async () => {
  const folder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.close()
  const node = await startLedgerNode({ folder: folder, peers: PEERS })
  const twinFolder = backupOf(folder)
  const twin = await startLedgerNode({ folder: twinFolder, peers: PEERS })
  const [keeper, other] = [
    await startLedgerNode({ peers: PEERS }),
    await startLedgerNode({ peers: PEERS }),
  ]
  const { serverId } = node.service
  expect(twin.service.serverId).toBe(serverId)
  for (const id of ['a', 'b', 'c']) await node.send('POST', '/api/fruit', { id })
  for (const id of ['x', 'y']) await twin.send('POST', '/api/fruit', { id })
  const path = `/api/ledgers/${serverId}/checkpoint`
  const noteOf = async (at: LedgerNode, size: number) => {
    let note = ''
    await until(`there is a head of ${size} blocks`, async () => {
      note = (await at.send('GET', path)).text
      return note.startsWith(`daicho/${serverId}\n${size}\n`)
    })
    return note
  }
  const [noteOfNode, noteOfTwin] = [await noteOf(node, 4), await noteOf(twin, 3)]
  await mirror(keeper, node)
  await mirror(other, twin)
  await noteOf(keeper, 4)
  await noteOf(other, 3)

  // A mirror that receives both histories keeps both heads, and accepts no further blocks of either history.
  await mirror(keeper, node, twin)
  const evidenceAt = async (at: LedgerNode) => (await at.send('GET', '/api/config/peers')).json
  await until(
    'the evidence is found',
    async () => (await evidenceAt(keeper)).peers[0].evidence !== null,
  )
  for (const peer of (await evidenceAt(keeper)).peers) {
    expect([peer.state, peer.evidence.notes]).toEqual(['frozen', [noteOfNode, noteOfTwin]])
  }
  await node.send('POST', '/api/fruit', { id: 'd' })
  await noteOf(node, 5)
  expect((await keeper.send('GET', path)).text).toBe(noteOfNode)

  // The node detects its twin through a peer that mirrors the twin's chain.
  const noteNow = (await node.send('GET', path)).text
  await mirror(node, other)
  await until('the evidence is found', async () => (await evidenceAt(node)).evidence !== null)
  const { evidence } = await evidenceAt(node)
  expect(evidence.notes).toEqual([noteNow, noteOfTwin])
  expect(evidence.what).toContain('3 blocks that are not the first blocks of this store')
  const isRefused = async (at: LedgerNode) => {
    const refused = await at.send('POST', '/api/fruit', { id: 'e' })
    expect([refused.status, refused.json.code]).toEqual([503, 'CHAIN_DOUBTED'])
    expect((await at.send('GET', '/readyz')).status).toBe(503)
    expect((await at.send('GET', '/metrics')).text).toContain('daicho_own_evidence 1')
  }
  await until(
    'the node stops accepting changes',
    async () => (await node.send('GET', '/readyz')).status === 503,
  )
  await isRefused(node)
  await node.close()
  // The evidence stays after a restart without peers, because a signature cannot be revoked.
  await Promise.all([twin, keeper, other].map((each) => each.close()))
  const again = await startLedgerNode({ folder, peers: PEERS })
  expect((await evidenceAt(again)).evidence.notes).toEqual([noteNow, noteOfTwin])
  await isRefused(again)
  await again.close()
})

it('nodes that are configured as in packaging/compose.yaml mirror each other', async () => {
  const nodes = await Promise.all([1, 2, 3].map(() => startLedgerNode({ peers: PEERS })))
  const program = fileURLToPath(new URL('../packaging/introduce.mjs', import.meta.url))
  const introduce = () =>
    promisify(execFile)(process.execPath, [program, ...nodes.map(({ url }) => url)])
  expect((await introduce()).stdout).toBe(
    nodes.map(({ url }) => `${url} mirrors 2 others\n`).join(''),
  )
  await introduce()
  for (const of of nodes) {
    await of.send('POST', '/api/fruit')
    const { serverId } = of.service
    const own = await chainAt(of, serverId)
    for (const at of nodes) {
      await until('the chain is mirrored', async () => (await chainAt(at, serverId)) === own)
      expect((await at.send('GET', '/api/config/peers')).json.peers).toHaveLength(2)
    }
  }
  await Promise.all(nodes.map((node) => node.close()))
})

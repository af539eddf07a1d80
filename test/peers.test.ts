// Nodes that mirror each other's chains, over real HTTP.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type LedgerNode, startLedgerNode, temporaryFolder } from './support/ledger-node.ts'

const PEERS = { allowPrivate: true, intervalMs: 20 }
const WAIT_MS = 10_000

async function vkeyOf(node: LedgerNode, serverId = node.service.serverId): Promise<string> {
  return (await node.send('GET', `/api/ledgers/${serverId}/vkey`)).text.trim()
}

async function mirror(at: LedgerNode, of: LedgerNode, via = of): Promise<void> {
  const peer = { vkey: await vkeyOf(of), url: via.url }
  expect((await at.send('POST', '/api/config/peers', peer)).json).toEqual({ status: true })
}

/** All blocks of the chain of `serverId`, with proofs, as `node` serves them. */
async function chainAt(node: LedgerNode, serverId: number): Promise<string> {
  return (await node.send('GET', `/api/ledgers?serverid=${serverId}&proof=1`)).text
}

/** Asks until it is so. */
async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + WAIT_MS
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error(`not within ${WAIT_MS} ms: ${what}`)
    await delay(10)
  }
}

it('three nodes that write at once end with the same three chains; databases are not shared', async () => {
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
  const { json } = await (nodes[0] as LedgerNode).send('GET', '/api/config/peers')
  expect(json.peers).toHaveLength(2)
  for (const peer of json.peers) {
    expect(peer).toMatchObject({ state: 'current', blocks: 61, lag: 0, error: null, fixed: false })
  }
  await Promise.all(nodes.map((node) => node.close()))
})

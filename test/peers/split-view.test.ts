// A node shows different histories to different peers. The peers mirror each other.
import { connect, createServer } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { nodeVerifySignature, parseVerifierKey, verifyEvidence } from '../../src/chain/index.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { backupOf, mirror, PEERS } from '../support/peers.ts'
import { until } from '../support/until.ts'

interface PeerReply {
  readonly serverid: number
  readonly state: string
  readonly blocks: number
  readonly evidence: object | null
}

async function started(folder: string): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder, peers: PEERS })
  onTestFinished(() => node.close())
  return node
}

/** Returns the status of the mirror of chain `serverId` on `node`. */
async function mirrorAt(node: LedgerNode, serverId: number): Promise<PeerReply | undefined> {
  const { peers } = (await node.send('GET', '/api/config/peers')).json
  return peers.find((peer: PeerReply) => peer.serverid === serverId)
}

/**
 * Starts a node and a fork of it with the first block in common, and one mirror of each. The mirror of the
 * node has `size` blocks, and the mirror of the fork has `forkSize`.
 */
async function split(
  size: number,
  forkSize: number,
  through: (node: LedgerNode) => Promise<{ url: string }> = async (node) => node,
) {
  const folder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.close()
  const liar = await started(folder)
  const fork = await started(backupOf(folder))
  for (let n = 1; n < size; n += 1) await liar.send('POST', '/api/fruit', { n })
  for (let n = 1; n < forkSize; n += 1) await fork.send('POST', '/api/fruit', { fork: n })
  const folders = [temporaryFolder(), temporaryFolder()] as const
  const [one, other] = [await started(folders[0]), await started(folders[1])]
  await mirror(one, liar, await through(liar))
  await mirror(other, fork, await through(fork))
  const { serverId } = liar.service
  const path = `/api/ledgers/${serverId}/checkpoint`
  await until('each mirror has its history', async () => {
    const notes = [await one.send('GET', path), await other.send('GET', path)]
    return notes.every(({ text }, at) => text.split('\n')[1] === `${[size, forkSize][at]}`)
  })
  return { liar, fork, one, other, folders, serverId }
}

/**
 * Waits until the mirror of `liar` on `node` is frozen, and verifies the evidence as a third party would. Returns the
 * sizes of the two logs, and the height at which they differ.
 */
async function frozenAt(node: LedgerNode, liar: LedgerNode) {
  const { serverId } = liar.service
  await until(
    'the mirror is frozen',
    async () => (await mirrorAt(node, serverId))?.state === 'frozen',
  )
  const { evidence = null } = (await mirrorAt(node, serverId)) ?? {}
  const key = parseVerifierKey(liar.service.log.verifierKey)
  const { checkpoints, fork } = await verifyEvidence(
    nodeVerifySignature,
    key,
    JSON.stringify(evidence),
  )
  expect((await node.send('GET', '/readyz')).json).toEqual({ status: true, frozen: 1 })
  const { text } = await node.send('GET', '/metrics')
  expect(text).toMatch(new RegExp(`daicho_peer_frozen{serverid="${serverId}",.*} 1`))
  return { sizes: checkpoints.map(({ size }) => size), height: fork?.height }
}

it.each([
  ['of equal size', 4, 4],
  ['of different sizes', 3, 9],
])(
  'honest mirrors of two histories %s detect the fork, and keep the evidence across restarts',
  async (_, a, b) => {
    const { liar, one, other, folders, serverId } = await split(a, b)
    await mirror(one, other)
    await mirror(other, one)
    expect(await frozenAt(one, liar)).toEqual({ sizes: [a, b], height: 1 })
    expect(await frozenAt(other, liar)).toEqual({ sizes: [b, a], height: 1 })
    // A frozen mirror does not accept later blocks of the lying node.
    await liar.send('POST', '/api/fruit', { later: true })
    await Promise.all([one.close(), other.close()])
    for (const [at, folder] of folders.entries()) {
      const again = await started(folder)
      expect(await mirrorAt(again, serverId)).toMatchObject({ state: 'frozen' })
      await frozenAt(again, liar)
      const { text } = await again.send('GET', `/api/ledgers/${serverId}/checkpoint`)
      expect(text.split('\n')[1]).toBe(`${[a, b][at]}`)
    }
  },
)

it('the mirrors detect the fork after a restart, even if the lying node is gone', async () => {
  const { liar, fork, one, other, folders } = await split(5, 3)
  await Promise.all([liar, fork, one, other].map((node) => node.close()))
  const [oneAgain, otherAgain] = [await started(folders[0]), await started(folders[1])]
  await mirror(oneAgain, otherAgain)
  await mirror(otherAgain, oneAgain)
  expect(await frozenAt(oneAgain, liar)).toEqual({ sizes: [5, 3], height: 1 })
  expect(await frozenAt(otherAgain, liar)).toEqual({ sizes: [3, 5], height: 1 })
})

it('the mirrors detect the fork while the lying node drops each connection in the middle of a reply', async () => {
  let isDropping = false
  let dropped = 0
  const through = async (node: LedgerNode) => {
    const proxy = createServer((socket) => {
      const upstream = connect(Number(new URL(node.url).port), '127.0.0.1')
      upstream.on('data', (part) => {
        if (!isDropping) return void socket.write(part)
        dropped += 1
        socket.write(part.subarray(0, 300), () => socket.destroy())
      })
      for (const [from, to] of [
        [socket, upstream],
        [upstream, socket],
      ] as const) {
        from.on('error', () => to.destroy()).on('close', () => to.destroy())
      }
      socket.pipe(upstream)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void proxy.close())
    const address = proxy.address()
    return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}` }
  }
  const { liar, fork, one, other } = await split(4, 6, through)
  isDropping = true
  await liar.send('POST', '/api/fruit', { later: true })
  await fork.send('POST', '/api/fruit', { later: true })
  await until('five replies were lost', () => dropped > 4)
  await mirror(one, other)
  await mirror(other, one)
  expect(await frozenAt(one, liar)).toEqual({ sizes: [4, 6], height: 1 })
  expect(await frozenAt(other, liar)).toEqual({ sizes: [6, 4], height: 1 })
})

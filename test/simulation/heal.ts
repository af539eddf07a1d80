import { contradict, copyAt } from './copies.ts'
import { all, audience, present, type Scene } from './scene.ts'
import type { SimulatedNode } from './simulated-node.ts'

/** Number of steps, after all faults are removed, within which the nodes must agree. */
const STEPS = 60
const STEP_MS = 4_000

/**
 * Removes all faults, and waits until the nodes agree. Restores each node that reports a loss, as an operator
 * would.
 */
export async function heal(scene: Scene): Promise<void> {
  const { world, network } = scene
  world.note('all faults are removed')
  network.heal()
  if (scene.kind === 'split view') await leave(scene)
  for (const node of present(scene)) {
    node.fullness = 0
    if (!node.isRunning) await node.start()
  }
  for (let step = 0; step < STEPS; step += 1) {
    for (const node of present(scene)) if (isBehindItself(scene, node)) node.write(1)
    await world.pass(STEP_MS)
    for (const node of present(scene)) {
      if (scene.double === null && !scene.restored.has(node) && mustRestore(node)) {
        scene.restored.add(node)
        await restore(scene, node)
      }
    }
    const isSettled = present(scene).every(
      (node) => isFound(scene, node) || isAgreedOn(scene, node),
    )
    if (isSettled && !(await isDeceived(scene))) return
  }
  if (await isDeceived(scene))
    world.fault('two mirrors of different histories have not detected the fork')
  for (const node of present(scene)) {
    if (!isFound(scene, node) && !isAgreedOn(scene, node)) {
      world.fault(`the mirrors of ${node.host} never get all of its blocks`)
      noteStates(scene, node)
    }
  }
}

/**
 * In half of the worlds with a split view, the victim and its double leave for good. In the other half, each of
 * them writes once more.
 */
async function leave(scene: Scene): Promise<void> {
  const { world, victim, double } = scene
  scene.isLiarGone = world.happens(0.5)
  for (const node of [victim, double]) {
    if (scene.isLiarGone) node?.cutOff()
    else if (node !== null) world.after(STEP_MS, () => node.write(1))
  }
  if (scene.isLiarGone) world.note('the nodes with the victim key have left')
}

/**
 * Returns whether two nodes that mirror each other were shown different histories, and at least one of them
 * has not detected this.
 */
async function isDeceived(scene: Scene): Promise<boolean> {
  if (scene.kind !== 'split view') return false
  const { serverId } = scene.victim.identity
  const [one, other] = audience(scene)
  const copies = [await copyAt(one, serverId), await copyAt(other, serverId)] as const
  return contradict(...copies) && copies.some(({ evidence }) => evidence === null)
}

/**
 * Returns whether other nodes have seen a signed head for blocks that the node has lost. If no other node has
 * these blocks, only the next write of the node can reveal the loss.
 */
function isBehindItself({ kind, nodes }: Scene, { identity, ids }: SimulatedNode): boolean {
  if (kind !== 'old disk') return false
  return nodes.some(({ service }) => {
    const peers = service?.mirrors.peers() ?? []
    return peers.some(({ serverId, ofBlocks }) => {
      return serverId === identity.serverId && ofBlocks > ids.length
    })
  })
}

/**
 * Returns whether the node reports a loss that a restore can repair. A node whose key signed two histories
 * cannot be restored.
 */
function mustRestore({ refusal, service }: SimulatedNode): boolean {
  if (refusal === 'STORE_ROLLED_BACK') return true
  const isDoubted = service?.writer.failure?.code === 'CHAIN_DOUBTED'
  return isDoubted && service?.mirrors.ownEvidence === null
}

async function restore({ world, nodes }: Scene, node: SimulatedNode): Promise<void> {
  const { serverId } = node.identity
  node.cutOff()
  let from = ''
  let most = -1
  for (const other of nodes) {
    if (other === node) continue
    const { ids } = await copyAt(other, serverId)
    if (ids.length <= most) continue
    most = ids.length
    from = other.host
  }
  if (await node.restore(from)) await node.start()
  else world.note(`${node.host} is not restored`)
}

/**
 * Returns whether another node has evidence against the key of `node`, or whether `node` or its double refuses to
 * start or to write.
 */
export function isFound(scene: Scene, { identity }: SimulatedNode): boolean {
  const { serverId } = identity
  return all(scene).some((node) => {
    if (node.identity.serverId !== serverId) {
      const peers = node.service?.mirrors.peers() ?? []
      return peers.some((peer) => peer.serverId === serverId && peer.evidence !== null)
    }
    return node.refusal !== null || node.service?.writer.failure?.code === 'CHAIN_DOUBTED'
  })
}

/** Adds what other nodes report about the chain of `node` to the trace, for diagnosis. */
function noteStates(scene: Scene, { identity, ids }: SimulatedNode): void {
  for (const { host, service } of all(scene)) {
    for (const { serverId, url, blocks, ofBlocks, error } of service?.mirrors.peers() ?? []) {
      if (serverId !== identity.serverId) continue
      const state = `${blocks} of ${ofBlocks}, error ${error?.code ?? null} ${error?.message ?? ''}`
      scene.world.note(`${host} from ${url}: ${state}; it has ${ids.length}`)
    }
  }
}

/** Returns whether all other nodes have the whole chain of `node`. */
function isAgreedOn(scene: Scene, node: SimulatedNode): boolean {
  const { serverId } = node.identity
  const size = node.ids.length
  return present(scene).every((other) => {
    // `other` does not start and cannot be restored, because its signed blocks are lost.
    if (other.refusal !== null) return true
    if (other.service === null) return false
    if (other.identity.serverId === serverId) return other.ids.length === size
    const peers = other.service.mirrors.peers().filter((peer) => peer.serverId === serverId)
    return peers.every(({ blocks, ofBlocks }) => blocks === size && ofBlocks === size)
  })
}

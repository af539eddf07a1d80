import { copyAt } from './copies.ts'
import { Lies } from './lies.ts'
import { all, DOUBLE, peersOfDouble, type Scene } from './scene.ts'
import { SimulatedNode } from './simulated-node.ts'

/** Number of steps with faults. STEP_MS is the duration of a step. */
const STEPS = 10
const STEP_MS = 2_000
/** Time after which a started node has asked all its peers for its own chain, milliseconds. */
const ASKED_MS = 5_000

export async function trouble(scene: Scene): Promise<void> {
  const { world, network, nodes, kind, victim } = scene
  const share = () => (world.happens(0.5) ? 0 : world.chance())
  network.loss = share() * 0.3
  network.delay = share() * 0.4
  network.duplication = share() * 0.5
  const crashes = world.happens(0.3) ? 0 : 0.08
  const cuts = world.happens(0.4) ? 0 : 0.25
  for (const node of nodes) if (world.happens(0.15)) node.fullness = 0.2
  for (const node of nodes) await node.start()
  const specialAt = world.between(3, STEPS - 2)
  const snapshotAt = world.between(1, specialAt)
  let snapshot = ''
  for (let step = 0; step < STEPS; step += 1) {
    if (step === snapshotAt && kind !== 'network') snapshot = victim.snapshot()
    if (step === specialAt) await special(scene, snapshot)
    for (const node of all(scene)) {
      if (world.happens(0.7)) writeSoon(scene, node)
      if (world.happens(crashes)) {
        await world.pass(world.between(0, 100))
        node.cutOff()
      } else if (!node.isRunning && node.refusal === null && world.happens(0.6)) await node.start()
    }
    if (world.happens(cuts)) changeCuts(scene)
    await world.pass(STEP_MS)
  }
}

function writeSoon({ world }: Scene, node: SimulatedNode): void {
  const writes = world.between(1, 4)
  for (let n = 0; n < writes; n += 1) {
    const items = world.between(1, 4)
    world.after(world.between(0, STEP_MS), () => node.write(items))
  }
}

function changeCuts({ world, network, nodes }: Scene): void {
  const [from, to] = [world.one(nodes), world.one(nodes)]
  const isWhole = world.happens(0.5)
  const change = world.happens(0.6) ? 'cut' : 'mend'
  if (from === to) return
  world.note(`${change} ${from.host} ${to.host}${isWhole ? ' and back' : ''}`)
  network[change](from.host, to.host)
  if (isWhole) network[change](to.host, from.host)
}

async function special(scene: Scene, snapshot: string): Promise<void> {
  const { world, network, victim, kind, signed } = scene
  if (kind === 'old store' || kind === 'old disk') await rollNodeBack(scene, snapshot)
  if (kind === 'copied key' || kind === 'split view') await startDouble(scene, snapshot)
  if (kind !== 'lies') return
  world.note(`${victim.host} receives changed replies from now on`)
  network.lies = new Lies(world, victim.host, signed)
}

/**
 * Rolls back the victim's whole disk or only its store. Then starts the victim and checks that it refuses
 * writes if a peer shows a longer chain.
 */
async function rollNodeBack(scene: Scene, snapshot: string): Promise<void> {
  const { world, network, victim, nodes, kind } = scene
  const { serverId } = victim.identity
  victim.cutOff()
  victim.rollBack(snapshot, kind === 'old disk' ? 'all' : 'store')
  const blocks = (await copyAt(victim, serverId)).ids.length
  let mirrored = 0
  for (const node of nodes) {
    if (node === victim) continue
    mirrored = Math.max(mirrored, (await copyAt(node, serverId)).ids.length)
  }
  scene.rollback = { blocks, mirrored, acknowledged: victim.acknowledged.length }
  world.note(`${victim.host} has an ${kind} of ${blocks} blocks, others have ${mirrored}`)
  const isCalm = world.happens(0.5)
  if (isCalm) network.heal()
  else for (const node of nodes) if (world.happens(0.6)) network.cut(node.host, victim.host)
  const showing = isCalm ? nodes.filter((node) => showsMore(node, victim, blocks)) : []
  await victim.start()
  await world.pass(ASKED_MS)
  const isRefusing = victim.service?.writer.failure?.code === 'CHAIN_DOUBTED'
  if (kind === 'old store' || isRefusing || victim.refusal !== null) return
  for (const { host, isRunning } of showing) {
    if (isRunning)
      world.fault(
        `${victim.host} accepts writes after it was rolled back, although ${host} has more blocks`,
      )
  }
}

/** Returns whether `node` runs, and has a complete copy of more than `blocks` blocks of the chain of `other`. */
function showsMore({ service }: SimulatedNode, other: SimulatedNode, blocks: number): boolean {
  const { serverId } = other.identity
  if (service === null || service.serverId === serverId) return false
  return service.mirrors.peers().some((peer) => {
    return peer.serverId === serverId && peer.blocks > blocks && peer.blocks === peer.ofBlocks
  })
}

/** Starts the double of the victim. In most worlds, some nodes cannot reach it. */
async function startDouble(scene: Scene, snapshot: string): Promise<void> {
  const { world, network, nodes } = scene
  if (world.happens(0.7)) {
    for (const node of nodes) if (world.happens(0.8)) network.cut(node.host, DOUBLE)
  }
  await startFork(scene, snapshot)
}

/** Starts the double of the victim, with a copy of the victim's folder. */
export async function startFork(scene: Scene, snapshot: string): Promise<void> {
  const { world, victim } = scene
  const double = new SimulatedNode(scene, DOUBLE, victim.identity)
  double.peers = peersOfDouble(scene)
  double.rollBack(snapshot, 'all')
  scene.double = double
  world.note(`a double of ${victim.host} starts`)
  await double.start()
}

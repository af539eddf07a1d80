import type { Peer } from '../../src/ledger/core.ts'
import { identityOf, SimulatedNode, type WorldContext } from './simulated-node.ts'

/** The main fault of a world, in addition to network, disk and power faults. */
export type Kind = (typeof KINDS)[number]

const KINDS = [
  ...(['network', 'network', 'old store', 'old disk', 'copied key', 'lies'] as const),
  'split view',
] as const
const HOSTS = ['a', 'b', 'c'] as const
/** Host of the double: a second node with the key of the victim. */
export const DOUBLE = 'double'

/** The chain of the victim when its disk was rolled back. */
export interface Rollback {
  /** Number of blocks that the victim had after the rollback. */
  readonly blocks: number
  /** Largest number of blocks of the victim's chain that another node had. */
  readonly mirrored: number
  /** Number of writes that the victim had acknowledged. */
  readonly acknowledged: number
}

export interface Scene extends WorldContext {
  readonly kind: Kind
  readonly nodes: readonly SimulatedNode[]
  /** The node whose disk or key is attacked, or that receives the lies. */
  readonly victim: SimulatedNode
  double: SimulatedNode | null
  rollback: Rollback | null
  /** Nodes that were restored from another node. */
  readonly restored: Set<SimulatedNode>
  /** Whether the victim and its double have left for good. */
  isLiarGone: boolean
}

/** Creates the scene that the seed determines. */
export function sceneOf(context: WorldContext): Scene {
  const { world, network } = context
  const kind = world.one(KINDS)
  const nodes = HOSTS.map((host) => new SimulatedNode(context, host, identityOf(world)))
  const victim = world.one(nodes)
  const scene: Scene = {
    ...context,
    ...{ kind, nodes, victim, double: null, rollback: null, restored: new Set<SimulatedNode>() },
    isLiarGone: false,
  }
  if (kind === 'network' && world.happens(0.4)) world.one(nodes).isHidden = true
  const peers = kind === 'split view' ? splitPeersOf : peersOf
  for (const node of nodes) node.peers = peers(scene, node)
  network.onAnswer = (host, { url }, { body }) => {
    const caller = all(scene).find((node) => node.host === host)
    const serverId = caller?.identity.serverId
    if (url.pathname !== `/api/ledgers/${serverId}/checkpoint`) return
    const shown = context.signed.find((one) => {
      return one.serverId === serverId && one.note === body.toString()
    })
    if (shown !== undefined) caller?.shownOwn(shown.ids.length)
  }
  return scene
}

/** All nodes, including the double if there is one. */
export function all({ nodes, double }: Scene): SimulatedNode[] {
  return double === null ? [...nodes] : [...nodes, double]
}

/** The nodes that have not left for good. */
export function present(scene: Scene): SimulatedNode[] {
  const { victim, double, isLiarGone } = scene
  return all(scene).filter((node) => !isLiarGone || (node !== victim && node !== double))
}

/** The nodes to which the victim and its double show different histories. */
export function audience({ nodes, victim }: Scene): [SimulatedNode, SimulatedNode] {
  const [one, other] = nodes.filter((node) => node !== victim)
  if (one === undefined || other === undefined) throw new Error('a world has three nodes')
  return [one, other]
}

/**
 * The peers of a node in a split view. One node mirrors the victim, and another node mirrors the double.
 * These two mirror each other, and no node pushes.
 */
function splitPeersOf(scene: Scene, node: SimulatedNode): Peer[] {
  const [one, other] = audience(scene)
  const peerOf = ({ identity, host }: SimulatedNode) => ({ vkey: identity.vkey, url: urlOf(host) })
  if (node === scene.victim) return [peerOf(one)]
  if (node === one) return [peerOf(scene.victim), peerOf(other)]
  return [{ vkey: scene.victim.identity.vkey, url: urlOf(DOUBLE) }, peerOf(one)]
}

/** The peers of the double. In a split view, this is only the node that mirrors the double. */
export function peersOfDouble(scene: Scene): readonly Peer[] {
  if (scene.kind !== 'split view') return scene.victim.peers
  const [, { identity, host }] = audience(scene)
  return [{ vkey: identity.vkey, url: urlOf(host) }]
}

/**
 * The peers of a node. The node fetches each chain from the node that writes it, and sometimes from a third
 * node as well. A hidden node pushes its chain, because other nodes cannot fetch it.
 */
function peersOf({ world, nodes, kind, victim }: Scene, node: SimulatedNode): Peer[] {
  const peers: Peer[] = []
  for (const other of nodes) {
    if (other === node) continue
    const { vkey } = other.identity
    if (other.isHidden) peers.push({ vkey, url: null })
    else peers.push({ vkey, url: urlOf(other.host), push: node.isHidden || world.happens(0.2) })
    const third = nodes.find((one) => one !== node && one !== other)
    if (third !== undefined && !third.isHidden && world.happens(0.3)) {
      peers.push({ vkey, url: urlOf(third.host) })
    }
  }
  const knowsDouble = kind === 'copied key' && node !== victim && world.happens(0.7)
  if (knowsDouble) peers.push({ vkey: victim.identity.vkey, url: urlOf(DOUBLE) })
  return peers
}

function urlOf(host: string): string {
  return `http://${host}`
}

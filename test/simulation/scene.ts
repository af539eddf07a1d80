import type { Peer } from '../../src/ledger/core.ts'
import { identityOf, SimulatedNode, type Surroundings } from './simulated-node.ts'

/** What is done to a world, beside what networks, disks and power do anyway. */
export type Kind = 'network' | 'old store' | 'old disk' | 'copied key' | 'lies'

const KINDS: readonly Kind[] = ['network', 'network', 'old store', 'old disk', 'copied key', 'lies']
const HOSTS = ['a', 'b', 'c'] as const
/** The host of the second node that has the key of the victim. */
export const DOUBLE = 'double'

/** When the victim got an older state of its disk. */
export interface PutBack {
  /** How many blocks it had then. */
  readonly blocks: number
  /** How many blocks of its chain others had. */
  readonly mirrored: number
  /** How many of its writes had been acknowledged. */
  readonly acknowledged: number
}

/** All of a world while it goes on. */
export interface Scene extends Surroundings {
  readonly kind: Kind
  readonly nodes: readonly SimulatedNode[]
  /** To whom it is done: the node of the disk, of the key, or the one that is lied to. */
  readonly victim: SimulatedNode
  double: SimulatedNode | null
  putBack: PutBack | null
  /** Nodes that were restored from others. */
  readonly restored: Set<SimulatedNode>
}

/** The scene that the seed of the world gives. */
export function sceneOf(around: Surroundings): Scene {
  const { world, network } = around
  const kind = world.one(KINDS)
  const nodes = HOSTS.map((host) => new SimulatedNode(around, host, identityOf(world)))
  const victim = world.one(nodes)
  const scene: Scene = {
    ...around,
    ...{ kind, nodes, victim, double: null, putBack: null, restored: new Set<SimulatedNode>() },
  }
  if (kind === 'network' && world.happens(0.4)) world.one(nodes).isHidden = true
  for (const node of nodes) node.peers = peersOf(scene, node)
  network.onAnswer = (host, { url }, { body }) => {
    const caller = all(scene).find((node) => node.host === host)
    const serverId = caller?.identity.serverId
    if (url.pathname !== `/api/ledgers/${serverId}/checkpoint`) return
    const shown = around.signed.find((one) => {
      return one.serverId === serverId && one.note === body.toString()
    })
    if (shown !== undefined) caller?.shownOwn(shown.ids.length)
  }
  return scene
}

/** Nodes and double. */
export function all({ nodes, double }: Scene): SimulatedNode[] {
  return double === null ? [...nodes] : [...nodes, double]
}

/** Each chain from its node, some also from a third one, or pushed where it cannot be fetched. */
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

/** The address of a host. */
function urlOf(host: string): string {
  return `http://${host}`
}

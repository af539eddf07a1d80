import { equalBytes, frontierAt, nodeSha256, rootOf, type VerifierKey } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { keepEvidence } from './evidence.ts'
import type { OwnDoubt } from './messages.ts'
import type { ChainSource } from './pull.ts'
import { openedHead } from './signed-head.ts'

/** The node whose own chain is asked for. */
export interface OwnChain {
  readonly key: VerifierKey
  readonly store: StoreReader
  /** Where evidence is kept. */
  readonly folder: string
  /** The newest signed head of it, or null when there is none now. */
  readonly checkpoint: () => Promise<string | null>
}

/**
 * Asks a peer what it has of the node's own chain. A head that the node has signed and does not have
 * is one that an older state of the disk has lost, or that another holder of the key has made: going
 * on would make a second history. Null when all is well.
 * Errors: of the source; ProofError for a head that the node's key has not signed.
 */
export async function doubtOf(source: ChainSource, own: OwnChain): Promise<OwnDoubt | null> {
  const note = await source.checkpoint()
  const head = await openedHead(own.key, note)
  // Read after the reply came: whatever this node itself has signed until then is in the store.
  own.store.refresh()
  const { serverId } = own.store
  const last = await own.store.head(serverId)
  const size = last === null ? 0 : last.height + 1
  if (head.size > size) {
    const message =
      `a peer has ${head.size} blocks of this node's chain, and the store only ${size}: ` +
      'an older state was put back, or another node has the same key; restore the chain from the peer'
    return { kind: 'longer', message }
  }
  const read = (nodes: Parameters<StoreReader['treeNodes']>[1]) =>
    own.store.treeNodes(serverId, nodes)
  const root = rootOf(nodeSha256, await frontierAt(head.size, read))
  if (equalBytes(root, head.root)) return null
  const what = `the key has signed ${head.size} blocks that are not the first ones of this store`
  // Without a head of its own there is nothing to show yet: the next round asks again.
  const ownNote = await own.checkpoint()
  if (ownNote !== null) keepEvidence(own.folder, { what, notes: [ownNote, note] })
  return { kind: 'other', message: `${what}: another node has the same key` }
}

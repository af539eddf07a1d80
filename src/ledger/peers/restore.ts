import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  equalBytes,
  frontierAt,
  logOrigin,
  nodeCrypto,
  nodeSha256,
  openCheckpoint,
  rootOf,
  type VerifierKey,
} from '../../chain/index.ts'
import {
  holdFolder,
  openStoreReader,
  StoreError,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { signedHeadIn } from '../log/signed-head.ts'
import { expectSignedHead } from '../log/signer.ts'
import { existingNodeKey } from '../node-key.ts'
import { PeerError } from './errors.ts'
import { Mirror } from './mirror.ts'
import { type ChainSource, type PullProgress, pull } from './pull.ts'

/** Where a store is restored; what is in there is gone on with when a restore begins again. */
const SIDE_FOLDER = 'restore.partial'

/** What to restore, and where to. */
export interface RestoreOptions {
  /** A data folder that holds the key of the chain's node, and no store. */
  readonly folder: string
  readonly serverId: number
  /** A node that has the chain. */
  readonly source: ChainSource
  readonly progress: PullProgress
  /** Threads that recompute the restored store. */
  readonly threads: number
}

/**
 * Makes the store of a node again from a mirror of its chain: chain, log and databases. The node then
 * continues the chain. Everything is verified against the node's own key, block by block as it comes
 * and the whole store at the end; memory does not grow with the chain.
 *
 * What a crash leaves, at each point:
 * - before the rename: a folder without a store, as it was, and a side folder that nothing but the next
 *   restore looks at. What is in there is whole pages of verified blocks: it goes on behind them.
 * - after it: the whole store, which was on the disk before it got its name.
 * Errors: PeerError, ProofError, OutboundError, StoreError; LedgerError STORE_ROLLED_BACK when the
 * peer has fewer blocks than the node has signed.
 */
export async function restoreChain(options: RestoreOptions): Promise<Verification> {
  const { folder } = options
  const key = keyIn(options)
  const held = holdFolder(folder)
  const side = join(folder, SIDE_FOLDER)
  try {
    // A log without its store would be taken for that of the new one.
    if (existsSync(held.storePath) || existsSync(`${held.storePath}-wal`)) {
      return await restoredBefore(options, key, side)
    }
    await fetchInto(side, options, key)
    const verification = await verified(side, options)
    renameSync(join(side, 'ledger.db'), held.storePath)
    sync(folder)
    rmSync(side, { recursive: true, force: true })
    return verification
  } finally {
    held.release()
  }
}

function keyIn({ folder, serverId }: RestoreOptions): VerifierKey {
  const key = existingNodeKey(folder)
  if (key?.serverId === serverId) return { name: logOrigin(serverId), publicKey: key.publicKey }
  const has = key === null ? 'no key' : `the key of server id ${key.serverId}`
  throw new PeerError(
    'RESTORE_WITHOUT_KEY',
    `${folder} holds ${has}: put the node.key of server id ${serverId} there; ` +
      'without its key a chain can be mirrored, not continued',
  )
}

/** Gets all blocks that the source has signed by now. */
async function fetchInto(
  side: string,
  { serverId, source, progress }: RestoreOptions,
  key: VerifierKey,
): Promise<void> {
  const mirror = await openSide(side, serverId, key)
  try {
    await pull(mirror, source, progress)
  } finally {
    await mirror.close()
  }
}

/** What cannot be gone on with is begun anew: it is a copy of what the source has. */
async function openSide(side: string, serverId: number, key: VerifierKey): Promise<Mirror> {
  const options = { folder: side, serverId, key, durable: true }
  try {
    return await Mirror.open(options)
  } catch (error) {
    if (!(error instanceof StoreError) || error.code === 'STORE_FULL') throw error
    rmSync(side, { recursive: true, force: true })
    return Mirror.open(options)
  }
}

/** The restored store, when all of it holds. */
async function verified(side: string, { folder, threads }: RestoreOptions): Promise<Verification> {
  const store = openStoreReader(side, { frozen: true })
  try {
    await expectSignedHead(store, signedHeadIn(folder))
    const how = threads > 1 ? { threads: { folder: side, count: threads } } : {}
    const verification = await verifyStore(store, how)
    const { finding } = verification
    if (finding === null) return verification
    // A source that hides entries as if they were erased is found here; nothing of it is kept.
    rmSync(side, { recursive: true, force: true })
    const where = finding.height === null ? '' : `block ${finding.height}: `
    throw new PeerError(
      'RESTORE_REFUSED',
      `what the peer has does not hold: ${where}${finding.what}`,
    )
  } finally {
    await store.close()
  }
}

/** Where a restore was ended after its last step, or a whole store is: nothing is left to be done. */
async function restoredBefore(
  { folder, source, serverId }: RestoreOptions,
  key: VerifierKey,
  side: string,
): Promise<Verification> {
  const head = await openCheckpoint(nodeCrypto, key, await source.checkpoint())
  const store = openStoreReader(folder, { frozen: true })
  try {
    const last = await store.head(serverId)
    const blocks = last === null ? 0 : last.height + 1
    const frontier =
      blocks < head.size
        ? null
        : await frontierAt(head.size, (nodes) => store.treeNodes(serverId, nodes))
    if (frontier === null || !equalBytes(rootOf(nodeSha256, frontier), head.root)) {
      throw new PeerError(
        'RESTORE_OVER_STORE',
        `${folder} holds a store already, which is not what the peer has: move ledger.db away first`,
      )
    }
    rmSync(side, { recursive: true, force: true })
    return await verifyStore(store)
  } finally {
    await store.close()
  }
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  fsyncSync(file)
  closeSync(file)
}

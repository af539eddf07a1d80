import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import {
  equalBytes,
  frontierAt,
  logOrigin,
  nodeCrypto,
  nodeSha256,
  openCheckpoint,
  rootOf,
  type VerifierKey,
  verifierKeyText,
} from '../../chain/index.ts'
import {
  BlobStore,
  closedStoreIn,
  fileExists,
  holdFolder,
  openStoreReader,
  StoreError,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { syncPath } from '../durable-file.ts'
import { signedHeadIn } from '../log/signed-head.ts'
import { expectSignedHead } from '../log/signer.ts'
import { existingNodeKey, type NodeKey } from '../node-key.ts'
import { ChainContents } from './chain-contents.ts'
import { ContentPull, type ContentSource } from './content-pull.ts'
import { PeerError } from './errors.ts'
import { Mirror, type MirrorOptions } from './mirror.ts'
import { underNewChain } from './new-chain.ts'
import { nodeOfKey } from './peer.ts'
import { type ChainSource, type PullProgress, pull } from './pull.ts'
import { NodeSigner } from './signed-request.ts'

/** Where a store is restored; what is in there is gone on with when a restore begins again. */
const SIDE_FOLDER = 'restore.partial'

/** Where a chain and the contents of its attachments are fetched. */
export type RestoreSource = ChainSource & ContentSource

/** What to restore, and where to. */
export interface RestoreOptions {
  /**
   * A data folder that holds the key of the chain's node, and no store. With `vkey` one that holds
   * neither: then the data come back under a new chain, and this one is a mirror.
   */
  readonly folder: string
  readonly serverId: number
  /** The verifier key of the chain, where its own key is lost; else null. */
  readonly vkey: string | null
  /** A node that has the chain; what it is asked may be signed. */
  readonly source: (signer: NodeSigner) => RestoreSource
  readonly progress: PullProgress
  /** Threads that recompute the restored store. */
  readonly threads: number
  readonly clock: Clock
  /** Leading zeros that ids of new blocks shall have, 0..4. */
  readonly difficulty: number
}

/** What was restored. */
export interface Restored {
  /** The store of the node. */
  readonly own: Verification
  /** The chain that the data were in, where that is another one; else null. */
  readonly mirrored: Verification | null
  /** Contents of attachments that the source does not have. */
  readonly absent: number
}

/**
 * Makes the store of a node again from a mirror of its chain: chain, log, databases and attachments.
 * The node then continues the chain. Everything is verified against the node's own key, block by block
 * as it comes and the whole store at the end; memory does not grow with the chain.
 *
 * What a crash leaves, at each point:
 * - before the rename: a folder without a store, as it was, a side folder that nothing but the next
 *   restore looks at, and contents of attachments. What is in there is whole pages of verified blocks,
 *   and contents that are what their SHA-256 says: it goes on behind them.
 * - after it: the whole store, which was on the disk before it got its name.
 * Errors: PeerError, ProofError, OutboundError, StoreError; LedgerError STORE_ROLLED_BACK when the
 * peer has fewer blocks than the node has signed. Without the key: those of `underNewChain`.
 */
export async function restoreChain(options: RestoreOptions): Promise<Restored> {
  const { folder, serverId, vkey } = options
  const key = existingNodeKey(folder)
  if (vkey !== null) expectKeyOf(serverId, vkey)
  if (key?.serverId === serverId) return continued(options, key)
  if (vkey !== null) return renewed(options, vkey)
  const has = key === null ? 'no key' : `the key of server id ${key.serverId}`
  throw new PeerError(
    'RESTORE_WITHOUT_KEY',
    `${folder} holds ${has}: put the node.key of server id ${serverId} there; where that is lost, ` +
      'name its verifier key (--key), and the data come back under a new chain',
  )
}

function expectKeyOf(serverId: number, vkey: string): void {
  if (nodeOfKey(vkey).serverId === serverId) return
  throw new PeerError('PEER_INVALID', `the verifier key is not that of server id ${serverId}`)
}

/** With the key of the chain. */
async function continued(options: RestoreOptions, ownKey: NodeKey): Promise<Restored> {
  const { folder, serverId, clock } = options
  const key = { name: logOrigin(serverId), publicKey: ownKey.publicKey }
  const source = options.source(new NodeSigner(ownKey, clock))
  const held = holdFolder(folder)
  const side = join(folder, SIDE_FOLDER)
  try {
    // A log without its store would be taken for that of the new one.
    if (fileExists(held.storePath) || fileExists(`${held.storePath}-wal`)) {
      const own = await restoredBefore(options, key, { side, source })
      return { own, mirrored: null, absent: await fetchContents(options, source) }
    }
    const mirror = await openSide({ folder: side, serverId, key, contentsFolder: folder })
    const absent = await fetchInto(mirror, source, { ...options, ownVkey: vkeyOf(ownKey) })
    const own = await verified(side, options)
    renameSync(closedStoreIn(side), held.storePath)
    syncPath(folder)
    rmSync(side, { recursive: true, force: true })
    return { own, mirrored: null, absent }
  } finally {
    held.release()
  }
}

/** Without it. */
async function renewed(options: RestoreOptions, vkey: string): Promise<Restored> {
  const { serverId, clock } = options
  let absent = 0
  const done = await underNewChain({ ...options, vkey }, async (folder, ownKey) => {
    const { key } = nodeOfKey(vkey)
    const source = options.source(new NodeSigner(ownKey, clock))
    const mirror = await openSide({ folder, serverId, key })
    absent = await fetchInto(mirror, source, { ...options, ownVkey: vkeyOf(ownKey) })
  })
  return { ...done, absent: Math.max(absent, done.absent) }
}

function vkeyOf({ serverId, publicKey }: NodeKey): string {
  return verifierKeyText(nodeSha256, { name: logOrigin(serverId), publicKey })
}

/** Gets all blocks that the source has signed by now, and contents; says how many it does not have. */
async function fetchInto(
  mirror: Mirror,
  source: RestoreSource,
  { progress, clock, ownVkey }: Pick<RestoreOptions, 'progress' | 'clock'> & { ownVkey: string },
): Promise<number> {
  try {
    await pull(mirror, source, progress).catch((error: unknown) => {
      throw error instanceof PeerError && / answered 401/.test(error.message)
        ? new PeerError(error.code, `${error.message}: this node must be a peer there, ${ownVkey}`)
        : error
    })
    const contents = new ContentPull(source, clock)
    await contents.run(mirror.contents)
    return contents.absent
  } finally {
    await mirror.close()
  }
}

/** Gets contents that a store does not have which was restored before. */
async function fetchContents(
  { folder, clock }: RestoreOptions,
  source: RestoreSource,
): Promise<number> {
  const store = openStoreReader(folder, { frozen: true })
  const files = new BlobStore(folder, store.attachments, true)
  try {
    const contents = new ContentPull(source, clock)
    await contents.run(new ChainContents(store.attachments, files, Number.POSITIVE_INFINITY))
    return contents.absent
  } finally {
    await store.close()
  }
}

/** What cannot be gone on with is begun anew: it is a copy of what the source has. */
async function openSide(options: Omit<MirrorOptions, 'durable'>): Promise<Mirror> {
  try {
    return await Mirror.open({ ...options, durable: true })
  } catch (error) {
    if (!(error instanceof StoreError) || error.code === 'STORE_FULL') throw error
    rmSync(options.folder, { recursive: true, force: true })
    return Mirror.open({ ...options, durable: true })
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
  { folder, serverId }: RestoreOptions,
  key: VerifierKey,
  { side, source }: { side: string; source: ChainSource },
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

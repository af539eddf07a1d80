import { join } from 'node:path'
import { equalBytes, logOrigin, type VerifierKey, verifierKeyText } from '../../chain/index.ts'
import {
  lockFolder,
  openBlobStore,
  StoreError,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { expectSignedHead, rootAt, signedHeadIn, storeEmptyHead } from '../log/signed-head.ts'
import { existingNodeKey, type NodeKey } from '../node-key.ts'
import { BlobSync, ChainBlobs, fetchingBlobs } from './blobs.ts'
import { PeerError } from './errors.ts'
import { CheckpointVerifier } from './evidence.ts'
import { Mirror, type MirrorOptions, pull } from './mirror.ts'
import { type NewChainOptions, restoreAsNewChain } from './new-chain.ts'
import type { BlobSource, ChainSource } from './peer-client.ts'
import { nodeOfKey } from './peer-list.ts'
import { hasStore, moveStore, removeFolder, verifyIn, withReader } from './side-store.ts'
import { NodeSigner } from './signed-request.ts'

/** Folder in which the store is built. After an interruption, the next restore continues there. */
const SIDE_FOLDER = 'restore.partial'

/** Provides a chain and its blobs. */
export type RestoreSource = ChainSource & BlobSource

export interface RestoreOptions extends Omit<NewChainOptions, 'vkey'> {
  /**
   * A data folder without a store, with the key of the chain's node or, if `vkey` is given, without a key. Without the
   * key, the data are restored into a new chain, and the old chain becomes a mirror.
   */
  readonly folder: string
  readonly serverId: number
  /** The verifier key of the chain if the node's private key is lost; otherwise null. */
  readonly vkey: string | null
  /** Connects to a node that has the chain. */
  readonly source: (signer: NodeSigner) => RestoreSource
}

export interface Restored {
  /** Verification of the store of the node. */
  readonly own: Verification
  /** Verification of the old chain, or null if the node continues that chain. */
  readonly mirrored: Verification | null
  /** Number of blobs that the source does not have. */
  readonly absent: number
}

/**
 * Restores the store of a node from a mirror of its chain: chain, log, databases and attachments. The node then
 * continues the chain. Blocks are verified against the node's key as they arrive, and the whole store at the end.
 * Memory use does not grow with the chain.
 *
 * A crash before the store is moved leaves the folder without a store. Its side folder has complete pages of verified
 * blocks, and its attachments folder has verified blobs. The next restore continues after them. A later crash leaves
 * the complete store, because the store is durable before it is moved. If the signed head is missing, the next restore
 * or the first start writes it.
 *
 * Errors: PeerError, ProofError, OutboundError, StoreError; LedgerError STORE_ROLLED_BACK if the peer has fewer
 * blocks than the node has signed. Without the key: as for `restoreAsNewChain`.
 */
export async function restoreChain(options: RestoreOptions): Promise<Restored> {
  const { folder, serverId, vkey } = options
  const key = existingNodeKey(folder)
  if (vkey !== null && nodeOfKey(vkey).serverId !== serverId) {
    throw new PeerError('PEER_INVALID', `the verifier key does not belong to server id ${serverId}`)
  }
  if (key?.serverId === serverId) return restoreWithKey(options, key)
  if (vkey !== null) return restoreWithoutKey(options, vkey)
  const found = key === null ? 'no key' : `the key of server id ${key.serverId}`
  throw new PeerError(
    'RESTORE_WITHOUT_KEY',
    `${folder} contains ${found}: copy the node.key of server id ${serverId} into the folder; if the key ` +
      'is lost, restore the data under a new chain with --key and the verifier key of that node',
  )
}

async function restoreWithKey(options: RestoreOptions, ownKey: NodeKey): Promise<Restored> {
  const { folder, serverId, clock } = options
  const key = { name: logOrigin(serverId), publicKey: ownKey.publicKey }
  const source = options.source(new NodeSigner(ownKey, clock))
  const lock = lockFolder(folder)
  const side = join(folder, SIDE_FOLDER)
  try {
    if (hasStore(folder)) {
      const own = await restoredBefore(options, key, source)
      removeFolder(side)
      storeEmptyHead(signedHeadIn(folder), ownKey)
      return { own, mirrored: null, absent: await fetchBlobs(options, source) }
    }
    const mirror = await openMirror({ folder: side, serverId, key, blobsFolder: folder })
    const absent = await fillMirror(mirror, source, options, ownKey)
    const own = await verified(side, options)
    moveStore(side, folder)
    storeEmptyHead(signedHeadIn(folder), ownKey)
    return { own, mirrored: null, absent }
  } finally {
    lock.release()
  }
}

async function restoreWithoutKey(options: RestoreOptions, vkey: string): Promise<Restored> {
  const { serverId, clock } = options
  let absent = 0
  const done = await restoreAsNewChain({ ...options, vkey }, async (folder, ownKey) => {
    const { key } = nodeOfKey(vkey)
    const source = options.source(new NodeSigner(ownKey, clock))
    const mirror = await openMirror({ folder, serverId, key })
    absent = await fillMirror(mirror, source, options, ownKey)
  })
  return { ...done, absent: Math.max(absent, done.absent) }
}

/** Opens a mirror. Deletes a damaged mirror, because the source has the same data. */
async function openMirror(options: Omit<MirrorOptions, 'durable'>): Promise<Mirror> {
  try {
    return await Mirror.open({ ...options, durable: true })
  } catch (error) {
    if (!(error instanceof StoreError) || error.code === 'STORE_FULL') throw error
    removeFolder(options.folder)
    return Mirror.open({ ...options, durable: true })
  }
}

/** Fetches all signed blocks and their blobs, then closes the mirror. Returns the number of missing blobs. */
async function fillMirror(
  mirror: Mirror,
  source: RestoreSource,
  { progress, clock }: RestoreOptions,
  { serverId, publicKey }: NodeKey,
): Promise<number> {
  try {
    await pull(mirror, source, progress)
    const blobs = new BlobSync(clock)
    await blobs.run(fetchingBlobs(source, mirror.blobs))
    return blobs.missing
  } catch (error) {
    if (!(error instanceof PeerError && / answered 401/.test(error.message))) throw error
    const vkey = verifierKeyText({ name: logOrigin(serverId), publicKey })
    throw new PeerError(
      error.code,
      `${error.message}: on that node, add a peer with the verifier key ${vkey}`,
    )
  } finally {
    await mirror.close()
  }
}

/** Fetches the missing blobs of a store that is already restored. */
function fetchBlobs({ folder, clock }: RestoreOptions, source: RestoreSource): Promise<number> {
  return withReader(folder, async (store) => {
    const files = await openBlobStore(folder, store, true)
    const blobs = new BlobSync(clock)
    await blobs.run(fetchingBlobs(source, new ChainBlobs(store.attachments, files)))
    return blobs.missing
  })
}

/** Verifies the restored store. Errors: RESTORE_REFUSED, STORE_ROLLED_BACK, LOG_CONTRADICTED. */
async function verified(side: string, { folder, threads }: RestoreOptions): Promise<Verification> {
  await withReader(side, (store) => expectSignedHead(store, signedHeadIn(folder)))
  const verification = await verifyIn(side, threads)
  const { finding } = verification
  if (finding === null) return verification
  // Discards all data, because a new attempt would not replace wrong data. For example, the source may have left out
  // entries as if they were erased.
  removeFolder(side)
  const where = finding.height === null ? '' : `block ${finding.height}: `
  throw new PeerError(
    'RESTORE_REFUSED',
    `the chain of the peer does not verify: ${where}${finding.what}`,
  )
}

/** Verifies the store of an earlier restore that was completed. Errors: RESTORE_OVER_STORE. */
async function restoredBefore(
  { folder, serverId }: RestoreOptions,
  key: VerifierKey,
  source: ChainSource,
): Promise<Verification> {
  const head = await new CheckpointVerifier(key).open(await source.checkpoint())
  return withReader(folder, async (store) => {
    const last = await store.head(serverId)
    const size = last === null ? 0 : last.height + 1
    if (size < head.size || !equalBytes(await rootAt(store, head.size), head.root)) {
      throw new PeerError(
        'RESTORE_OVER_STORE',
        `${folder} already contains a store with another chain: move ledger.db away first`,
      )
    }
    return verifyStore(store)
  })
}

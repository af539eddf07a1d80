import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { equalBytes, logOrigin, type VerifierKey, verifierKeyText } from '../../chain/index.ts'
import {
  lockFolder,
  openBlobStore,
  removeWrongBlobs,
  StoreError,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { findNodeKey, type NodeKey } from '../log/node-key.ts'
import { requireSignedHead, rootAt, signedHeadFile, storeEmptyHead } from '../log/signed-head.ts'
import { BlobSync, ChainBlobs, fetchingBlobs } from './blobs.ts'
import { PeerError } from './errors.ts'
import { CheckpointVerifier } from './evidence.ts'
import { Mirror, type MirrorOptions, pull } from './mirror.ts'
import { type NewChainOptions, restoreAsNewChain } from './new-chain.ts'
import type { BlobSource, ChainSource } from './peer-client.ts'
import { parseNodeKey } from './peer-list.ts'
import {
  hasStore,
  moveStore,
  removeFolder,
  requireValid,
  verifyStoreAt,
  withReader,
} from './side-store.ts'
import { NodeSigner } from './signed-request.ts'

/** Folder in which the store is built. After an interruption, the next restore continues there. */
const SIDE_FOLDER = 'restore.partial'

/** Maximum requests for new blocks of a chain that grows during the restore. */
const PULLS_MAX = 5

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
  /** Number of blobs that the source does not have or cannot read. */
  readonly absent: number
}

/**
 * Restores the store of a node from a mirror of its chain: chain, log, databases and attachments. The node then
 * continues the chain. Blocks are verified against the node's key as they arrive, and the whole store at the end.
 * Memory use does not grow with the chain.
 *
 * A crash before the store is moved leaves the folder without a store. Its side folder has complete pages of verified
 * blocks, and the next restore continues after them. A later crash leaves the complete store, because the store is
 * durable before it is moved. Attachments are fetched last, so a missing blob does not prevent the restore of the
 * others. The next restore verifies the store again, fetches missing blobs, and writes the signed head if it is missing.
 *
 * Errors: PeerError, ProofError, OutboundError, StoreError; LedgerError STORE_ROLLED_BACK if the peer has fewer
 * blocks than the node has signed. Without the key: as for `restoreAsNewChain`.
 */
export async function restoreChain(options: RestoreOptions): Promise<Restored> {
  const { folder, serverId, vkey } = options
  const key = findNodeKey(folder)
  if (vkey !== null && parseNodeKey(vkey).serverId !== serverId) {
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
    const own = await withHint(ownKey, async () => {
      if (hasStore(folder)) return restoredBefore(options, key, source)
      await fillMirror({ folder: side, serverId, key }, source, options)
      const verification = await verifySideStore(side, options)
      moveStore(side, folder)
      return verification
    })
    removeFolder(side)
    storeEmptyHead(signedHeadFile(folder), ownKey)
    const absent = await withReader(folder, async (store) => {
      const files = await openBlobStore(folder, store, true)
      try {
        await removeWrongBlobs(store, folder)
        return await fetchBlobs(new ChainBlobs(store.attachments, files), source, clock)
      } finally {
        await files.close()
      }
    })
    return { own, mirrored: null, absent }
  } finally {
    lock.release()
  }
}

async function restoreWithoutKey(options: RestoreOptions, vkey: string): Promise<Restored> {
  const { serverId, clock } = options
  let absent = 0
  const done = await restoreAsNewChain({ ...options, vkey }, async (folder, ownKey) => {
    const { key } = parseNodeKey(vkey)
    const source = options.source(new NodeSigner(ownKey, clock))
    await withHint(ownKey, () =>
      fillMirror({ folder, serverId, key }, source, options, async ({ blobs }) => {
        await withReader(folder, (store) => removeWrongBlobs(store, folder))
        absent = await fetchBlobs(blobs, source, clock)
      }),
    )
  })
  return { ...done, absent: Math.max(absent, done.absent) }
}

/** Opens a mirror. Deletes a damaged mirror, because the source has the same data. */
async function openMirror(options: Omit<MirrorOptions, 'durable'>): Promise<Mirror> {
  try {
    return await Mirror.open({ ...options, durable: true })
  } catch (error) {
    if (!(error instanceof StoreError) || /^(STORE_FULL$|FOLDER_)/.test(error.code)) throw error
    removeFolder(options.folder)
    return Mirror.open({ ...options, durable: true })
  }
}

/**
 * Fetches all signed blocks into a mirror, runs `then` and closes the mirror. Fetches again until there are no more,
 * because an entry that was erased during the restore needs the later entry that erased it.
 */
async function fillMirror(
  at: Omit<MirrorOptions, 'durable'>,
  source: RestoreSource,
  { progress }: RestoreOptions,
  then: (mirror: Mirror) => Promise<void> = async () => {},
): Promise<void> {
  const mirror = await openMirror(at)
  try {
    for (let size = -1, pulls = 0; size < mirror.size && pulls < PULLS_MAX; pulls += 1) {
      size = mirror.size
      await pull(mirror, source, { progress })
    }
    await then(mirror)
  } finally {
    await mirror.close()
  }
}

/**
 * Fetches the missing blobs. Returns the number of blobs that the source does not have or cannot read. Errors: the last
 * error of a transfer, such as a lost connection or a full disk, because a new chain would lack the blob for ever.
 */
async function fetchBlobs(blobs: ChainBlobs, source: BlobSource, clock: Clock): Promise<number> {
  const sync = new BlobSync(clock)
  await sync.run(fetchingBlobs(source, blobs))
  if (sync.failure !== null) throw sync.failure
  return sync.missing
}

/** Runs `work`. If the source requires a token, the error says how it accepts the key of this node. */
async function withHint<Result>(
  { serverId, publicKey }: NodeKey,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof PeerError && / answered 401/.test(error.message))) throw error
    const vkey = verifierKeyText({ name: logOrigin(serverId), publicKey })
    throw new PeerError(
      error.code,
      `${error.message}: on that node, add a peer with the verifier key ${vkey}`,
    )
  }
}

/** Verifies the restored store. Errors: RESTORE_REFUSED, STORE_ROLLED_BACK, LOG_CONTRADICTED. */
async function verifySideStore(
  side: string,
  { folder, threads }: RestoreOptions,
): Promise<Verification> {
  await withReader(side, (store) => requireSignedHead(store, signedHeadFile(folder)))
  const verification = await verifyStoreAt(side, threads)
  // Discards all data, because a new attempt would not replace wrong data. For example, the source may have left out
  // entries as if they were erased.
  if (verification.finding !== null) removeFolder(side)
  return requireValid(verification, 'the chain of the peer')
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
    return requireValid(await verifyStore(store), `the store in ${folder}`)
  })
}

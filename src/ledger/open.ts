import type { Clock, Schedule } from '../base/clock.ts'
import { packPosition } from '../chain/index.ts'
import {
  BlobStore,
  type Folder,
  fileExists,
  holdFolder,
  openStoreReader,
  type StoreReader,
} from '../storage/index.ts'
import { ATTACHMENT_BYTES_MAX, AttachmentService } from './attachments.ts'
import { ChangeFeed, FEED_BOUNDS, type FeedBounds } from './changes/feed.ts'
import { LedgerError } from './errors.ts'
import { type LedgerLog, openLog } from './log/service.ts'
import { expectNoHead, signedHeadIn } from './log/signed-head.ts'
import { type NodeKey, nodeKeyIn, temporaryNodeKey } from './node-key.ts'
import { ChainBlobs } from './peers/chain-blobs.ts'
import { Mirrors } from './peers/mirrors.ts'
import { type Peer, PeerList } from './peers/peer-list.ts'
import { type Platform, systemPlatform } from './platform.ts'
import { LedgerService } from './service.ts'
import { LedgerWriter } from './writer/writer.ts'

/** How a node's ledger is opened. */
export interface OpenLedgerOptions {
  /** The data folder; null keeps everything in a temporary one that goes with the process. */
  readonly folder: string | null
  /** Leading zeros that block ids shall have, 0..4. */
  readonly difficulty: number
  readonly clock: Clock
  /** Runs the change feed; by default the platform's timers. */
  readonly schedule?: Schedule
  /** What the change feed bears; what is absent is as in `FEED_BOUNDS`. */
  readonly feedBounds?: Partial<FeedBounds>
  /** The most bytes of one attachment; 1 GiB when absent. */
  readonly attachmentBytesMax?: number
  /** The other nodes whose chains are mirrored here; none when absent. */
  readonly peers?: PeersOptions
  /** The platform as it is when absent. */
  readonly platform?: Platform
}

/** How other nodes' chains are mirrored. */
export interface PeersOptions {
  /** Peers that stay, whatever is added or removed at run time. */
  readonly fixed?: readonly Peer[]
  /** Whether peers may be on private networks; default false. */
  readonly allowPrivate?: boolean
  /** Between two rounds with a peer, milliseconds; default 500. */
  readonly intervalMs?: number
}

const PEERS_INTERVAL_MS = 500

/** An open ledger: this process alone holds its folder. */
export interface OpenLedger {
  readonly service: LedgerService
  /** Writes what waits, then lets go of the folder. */
  close(): Promise<void>
}

/**
 * Opens the ledger of one node, making key and store on first use.
 * Errors: StoreError (folder in use, unusable, too new, damaged), LedgerError (key missing, store lost).
 */
export async function openLedger(options: OpenLedgerOptions): Promise<OpenLedger> {
  const folder = holdFolder(options.folder)
  try {
    return await openIn(folder, options)
  } catch (error) {
    folder.release()
    throw error
  }
}

async function openIn(folder: Folder, options: OpenLedgerOptions): Promise<OpenLedger> {
  const { clock, difficulty, platform = systemPlatform, schedule = platform.schedule } = options
  const isNew = !fileExists(folder.storePath)
  if (folder.lasting && isNew) expectNoHead(folder.path, signedHeadIn(folder.path))
  const key = folder.lasting ? nodeKeyIn(folder.path, isNew) : temporaryNodeKey()
  const { serverId } = key
  const writer = await LedgerWriter.start(
    { folder: folder.path, serverId, durable: folder.lasting, difficulty },
    clock,
    platform,
  )
  const reader = openStoreReader(folder.path, { frozen: false })
  const opened = async () => ({
    ...(await openLog(folder, reader, key, platform)),
    list: new PeerList(folder.lasting ? folder.path : null, options.peers?.fixed ?? [], serverId),
  })
  const { log, signing, list } = await opened().catch(async (error: unknown) => {
    await reader.close()
    await writer.close()
    throw error
  })
  const feed = new ChangeFeed(await lastPosition(reader), {
    store: reader,
    schedule,
    bounds: { ...FEED_BOUNDS, ...options.feedBounds },
  })
  writer.onCommit = (last) => {
    reader.refresh()
    signing.onCommit()
    if (last !== null) feed.committed(last)
  }
  const contents = new BlobStore(folder.path, reader.attachments, folder.lasting)
  await contents.recover()
  const { attachmentBytesMax = ATTACHMENT_BYTES_MAX } = options
  const ownBlobs = new ChainBlobs(reader.attachments, contents, attachmentBytesMax)
  const mirrors = await openMirrors(
    folder,
    { list, log, key, writer, ownBlobs, blobBytesMax: attachmentBytesMax, platform },
    options.peers ?? {},
  )
  const attachments = new AttachmentService(reader, writer, contents, attachmentBytesMax)
  return {
    service: new LedgerService(reader, writer, clock, {
      folder: folder.path,
      feed,
      attachments,
      log,
      mirrors,
    }),
    async close() {
      feed.close()
      await mirrors.close()
      await signing.close()
      await contents.close()
      // The writer last: who closes last folds the engine's log into the file.
      await reader.close()
      await writer.close()
      folder.release()
    },
  }
}

interface MirrorsParts {
  readonly list: PeerList
  readonly log: LedgerLog
  readonly key: NodeKey
  readonly writer: LedgerWriter
  readonly ownBlobs: ChainBlobs
  readonly blobBytesMax: number
  readonly platform: Platform
}

/** Mirrors that go on with the peers of `list`; what they doubt holds back the writer. */
async function openMirrors(
  { path, lasting }: Folder,
  { list, log, key, writer, ownBlobs, blobBytesMax, platform }: MirrorsParts,
  { allowPrivate = false, intervalMs = PEERS_INTERVAL_MS }: PeersOptions,
): Promise<Mirrors> {
  const ownKey = log.verifierKey
  const { privateKey } = key
  const mirrors = new Mirrors(
    { folder: path, lasting, ownKey, privateKey, allowPrivate, intervalMs, blobBytesMax },
    list,
    { ownBlobs, platform },
  )
  mirrors.ownCheckpoint = () => log.checkpoint()
  mirrors.onConflict = (message) => writer.suspend(new LedgerError('CHAIN_DOUBTED', message))
  const { ownEvidence } = mirrors
  if (ownEvidence !== null) mirrors.onConflict(ownEvidence.what)
  await mirrors.begin()
  return mirrors
}

/** The packed position of the last entry of the own chain, or null while there is none. */
async function lastPosition(reader: StoreReader): Promise<number | null> {
  const head = await reader.head(reader.serverId)
  if (head === null) return null
  const [block] = await reader.blocks(reader.serverId, head.height, 1)
  return packPosition(head.height, (block?.entries.length ?? 1) - 1)
}

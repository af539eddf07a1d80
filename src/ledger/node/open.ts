import type { Clock, Schedule } from '../../base/clock.ts'
import {
  type Head,
  logOrigin,
  packPosition,
  unpackHeight,
  type VerifierKey,
} from '../../chain/index.ts'
import {
  type Folder,
  isDatabaseUrl,
  lockFolder,
  openBlobStore,
  openStoreReader,
  openTurns,
  type StoreLocation,
  type StoreReader,
  storeExists,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { ChangeFeed, FEED_BOUNDS, type FeedBounds } from '../feed/feed.ts'
import { openNodeKey, temporaryNodeKey } from '../log/node-key.ts'
import { openLog } from '../log/service.ts'
import { requireNoHead, signedHeadFile } from '../log/signed-head.ts'
import { LogWitness, witnessState } from '../log/witness.ts'
import type { WitnessesOptions } from '../log/witnesses.ts'
import { ChainBlobs } from '../peers/blobs.ts'
import { Mirrors } from '../peers/mirrors.ts'
import { type Peer, PeerList } from '../peers/peer-list.ts'
import { type Platform, systemPlatform } from '../platform.ts'
import { ItemHistory } from '../read/item-history.ts'
import { LedgerReader } from '../read/ledger-reader.ts'
import { LedgerReads } from '../read/reads.ts'
import { ATTACHMENT_BYTES_MAX, AttachmentService } from '../write/attachments.ts'
import { HeadFollower } from '../write/head-follower.ts'
import { LedgerWriter } from '../write/writer.ts'
import { LedgerWrites } from '../write/writes.ts'
import { ScheduledVerification, type VerificationOptions } from './scheduled-verification.ts'
import type { LedgerService } from './service.ts'

export interface OpenLedgerOptions {
  /** Data folder; null for a temporary folder that is removed when the process exits. */
  readonly folder: string | null
  /** Location of the store; default: `folder`. The key and the signed head are always in `folder`. */
  readonly store?: StoreLocation | null
  readonly clock: Clock
  /** Timers of the change feed; default: the timers of the runtime. */
  readonly schedule?: Schedule
  /** Bounds of the change feed; default: `FEED_BOUNDS`. */
  readonly feedBounds?: Partial<FeedBounds>
  /** Maximum bytes of one attachment; default: 1 GiB. */
  readonly attachmentBytesMax?: number
  /** Nodes whose chains this node mirrors; default: none. */
  readonly peers?: PeersOptions
  /** Witnesses that cosign the checkpoints of this node; default: none. */
  readonly witnesses?: WitnessesOptions
  /** Logs that this node cosigns, in addition to the logs of its peers; default: none. */
  readonly witnessOf?: readonly VerifierKey[]
  /** Options of the scheduled verification of the store; null or absent for none. */
  readonly verification?: VerificationOptions | null
  /** Clock, timers, threads and network, which tests replace; default: those of the runtime. */
  readonly platform?: Platform
}

export interface PeersOptions {
  readonly fixed?: readonly Peer[]
  /** Allows peers on private networks; default false. */
  readonly allowPrivate?: boolean
  /** Interval between polls of a peer, milliseconds; default 500. */
  readonly intervalMs?: number
}

const PEERS_INTERVAL_MS = 500
const NO_WITNESSES: WitnessesOptions = { witnesses: [], allowPrivate: false, report() {} }

/** An open ledger. Its folder is locked, so no other process can open it. */
export interface OpenLedger {
  readonly service: LedgerService
  /** Writes pending changes, then releases the folder. */
  close(): Promise<void>
}

/**
 * Opens the ledger of one node. On first use, creates its key and its store.
 * Errors: StoreError (folder in use, unusable, too new, damaged), LedgerError (key missing, store lost).
 */
export async function openLedger(options: OpenLedgerOptions): Promise<OpenLedger> {
  const folder = lockFolder(options.folder)
  try {
    return await openIn(folder, options)
  } catch (error) {
    folder.release()
    throw error
  }
}

async function openIn(folder: Folder, options: OpenLedgerOptions): Promise<OpenLedger> {
  const { clock, platform = systemPlatform, schedule = platform.schedule } = options
  const { attachmentBytesMax = ATTACHMENT_BYTES_MAX, peers = {} } = options
  const { witnesses: asked = NO_WITNESSES } = options
  const { path, durable } = folder
  const location = options.store ?? path
  const isNew = !(await storeExists(location))
  if (durable && isNew) requireNoHead(path, signedHeadFile(path))
  const key = durable ? openNodeKey(path, isNew) : temporaryNodeKey()
  const { serverId, privateKey } = key
  const start = { location, serverId, durable }
  const writer = await LedgerWriter.start(start, clock, platform)
  const reader = await openStoreReader(location, { frozen: false })
  const opened = async () => ({
    ...(await openLog({ ...folder, location }, reader, key, {
      ...{ platform, witnesses: asked },
      noteSigned: (head) => follower.noteSeen(head),
    })),
    list: new PeerList(durable ? path : null, peers.fixed ?? [], serverId),
  })
  const { log, signing, witnesses, list } = await opened().catch(async (error: unknown) => {
    await reader.close()
    await writer.close()
    throw error
  })
  const head = await reader.head(serverId)
  const last = head === null ? null : await lastPosition(reader, head)
  const feed = new ChangeFeed(last, {
    store: reader,
    schedule,
    bounds: { ...FEED_BOUNDS, ...options.feedBounds },
    ...(isDatabaseUrl(location) ? { catchUp: () => follower.catchUp() } : {}),
  })
  const next = last === null ? 0 : unpackHeight(last) + 1
  const follower = new HeadFollower(reader, next, {
    seen: (head) => writer.noteSeen(head),
    lost: (message) => writer.suspend(new LedgerError('STORE_ROLLED_BACK', message)),
  })
  follower.listen(({ last, isOwn }) => {
    // Clears the cache of the feed, because another process may have erased an entry in it.
    if (!isOwn) feed.erased()
    signing.onCommit()
    feed.committed(last)
  })
  if (head !== null) follower.noteSeen(head)
  writer.onCommit = (committed) => {
    reader.refresh()
    if (committed !== null) follower.committed(committed)
  }
  const blobs = await openBlobStore(location, reader, durable)
  await blobs.recover()
  const { allowPrivate = false, intervalMs = PEERS_INTERVAL_MS } = peers
  const shared = {
    folder: path,
    location,
    durable,
    ownKey: log.verifierKey,
    privateKey,
    allowPrivate,
  }
  const ownBlobs = new ChainBlobs(reader.attachments, blobs, attachmentBytesMax)
  const mirrors = new Mirrors({ ...shared, intervalMs, blobBytesMax: attachmentBytesMax }, list, {
    ownBlobs,
    platform,
  })
  mirrors.ownCheckpoint = () => log.checkpoint()
  mirrors.onConflict = (message) => writer.suspend(new LedgerError('CHAIN_DOUBTED', message))
  if (mirrors.ownEvidence !== null) mirrors.onConflict(mirrors.ownEvidence.what)
  await mirrors.begin()
  const attachments = new AttachmentService(reader, writer, blobs, attachmentBytesMax)
  if (isDatabaseUrl(location)) follower.poll(schedule)
  const turnsOf = await openTurns(location, schedule)
  const { witnessOf = [] } = options
  const witness = new LogWitness({
    ...{ name: `${logOrigin(serverId)}/witness`, clock },
    change: await witnessState(location, durable ? path : null),
    findKey: (origin) =>
      mirrors.peerOfKey(origin)?.key ?? witnessOf.find(({ name }) => name === origin) ?? null,
  })
  const verification =
    options.verification === undefined || options.verification === null
      ? null
      : new ScheduledVerification(
          { location, folder: durable ? path : null },
          options.verification,
          { clock, schedule, threads: platform },
        )
  const service: LedgerService = {
    serverId,
    read: new LedgerReads(reader, clock),
    history: new ItemHistory(reader),
    write: new LedgerWrites({
      ...{ store: reader, writer, clock, attachments, turnsOf },
      onErased: () => feed.erased(),
    }),
    store: reader,
    reader: new LedgerReader(location, reader),
    ...{ attachments, writer, follower, feed, log, witnesses, witness, mirrors, verification },
  }
  return {
    service,
    async close() {
      await verification?.close()
      await follower.close()
      feed.close()
      await mirrors.close()
      witnesses.close()
      await signing.close()
      await blobs.close()
      // The writer closes after the reader, because SQLite checkpoints the WAL when the last connection is closed, and
      // the reader cannot do this.
      await reader.close()
      await writer.close()
      folder.release()
    },
  }
}

/** Returns the packed position of the last entry of the block at `height`. */
async function lastPosition(reader: StoreReader, { height }: Head): Promise<number> {
  const [block] = await reader.blocks(reader.serverId, height, 1)
  return packPosition(height, (block?.entries.length ?? 1) - 1)
}

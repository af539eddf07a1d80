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
  openSharedText,
  openStoreReader,
  openTurns,
  type StoreLocation,
  type StoreReader,
  storeExists,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { ChangeFeed, FEED_BOUNDS, type FeedBounds } from '../feed/feed.ts'
import { type NodeKey, openNodeKey, temporaryNodeKey } from '../log/node-key.ts'
import { type LedgerLog, openLog } from '../log/service.ts'
import { lostStoreFinding } from '../log/signed-head.ts'
import type { LogSigning } from '../log/signing.ts'
import { LogWitness, witnessState } from '../log/witness.ts'
import type { WitnessesOptions } from '../log/witnesses.ts'
import { ChainBlobs } from '../peers/blobs.ts'
import { OWN_EVIDENCE } from '../peers/evidence.ts'
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
  /**
   * Whether the state is followed and signed; default true. A program that only changes data leaves it to the node, which
   * continues it after its start.
   */
  readonly followsState?: boolean
  /** Whether each change must have an author, because the node requires tokens; default false. */
  readonly authorRequired?: boolean
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
    return await openInFolder(folder, options)
  } catch (error) {
    folder.release()
    throw error
  }
}

/** The store of a node, with its key. */
interface OpenedStore {
  readonly location: StoreLocation
  readonly key: NodeKey
  readonly writer: LedgerWriter
  readonly reader: StoreReader
}

/** Opens the store. On first use, creates the key, then the store. */
async function openNodeStore(
  { path, durable }: Folder,
  { clock, platform = systemPlatform, store, authorRequired = false }: OpenLedgerOptions,
): Promise<OpenedStore> {
  const location = store ?? path
  const isNew = !(await storeExists(location))
  const lost = durable && isNew ? lostStoreFinding(path) : null
  if (lost !== null) throw new LedgerError('STORE_ROLLED_BACK', lost)
  const key = durable ? openNodeKey(path, isNew) : temporaryNodeKey()
  const start = { location, serverId: key.serverId, durable }
  const writer = await LedgerWriter.start(start, clock, platform)
  writer.isAuthorRequired = authorRequired
  return { location, key, writer, reader: await openStoreReader(location, { frozen: false }) }
}

async function openInFolder(folder: Folder, options: OpenLedgerOptions): Promise<OpenLedger> {
  const { clock, platform = systemPlatform, schedule = platform.schedule } = options
  const { attachmentBytesMax = ATTACHMENT_BYTES_MAX, peers = {}, followsState = true } = options
  const { path, durable } = folder
  const store = await openNodeStore(folder, options)
  const { location, key, writer, reader } = store
  const opened = async () => ({
    ...(await openLog({ ...folder, location, followsState }, reader, key, {
      ...{ platform, witnesses: options.witnesses ?? NO_WITNESSES },
      noteSigned: (head) => follower.noteSeen(head),
    })),
    list: new PeerList(durable ? path : null, peers.fixed ?? [], key.serverId),
  })
  const { log, signing, witnesses, closeLog, list } = await opened().catch(
    async (error: unknown) => {
      await reader.close()
      await writer.close()
      throw error
    },
  )
  const { feed, follower } = await followChain(store, signing, options)
  const blobs = await openBlobStore(location, reader, durable)
  await blobs.recover()
  const ownBlobs = new ChainBlobs(reader.attachments, blobs, attachmentBytesMax)
  const mirrors = await openMirrors(folder, store, options, { list, log, ownBlobs })
  const attachments = new AttachmentService(reader, writer, blobs, attachmentBytesMax)
  if (isDatabaseUrl(location)) follower.poll(schedule)
  const turnsOf = await openTurns(location, schedule)
  const witness = await openWitness(folder, store, options, mirrors)
  const verification = scheduledVerification(folder, store, options)
  const service: LedgerService = {
    serverId: key.serverId,
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
  const close = async () => {
    await verification?.close()
    await follower.close()
    feed.close()
    await mirrors.close()
    await closeLog()
    await blobs.close()
    // The writer closes after the reader, because SQLite checkpoints the WAL when the last connection is closed, and
    // the reader cannot do this.
    await reader.close()
    await writer.close()
    folder.release()
  }
  return { service, close }
}

/** Starts the change feed, and notifies it of the blocks of this process and of others. */
async function followChain(
  { location, key, writer, reader }: OpenedStore,
  signing: LogSigning,
  { platform = systemPlatform, schedule = platform.schedule, feedBounds }: OpenLedgerOptions,
): Promise<{ readonly feed: ChangeFeed; readonly follower: HeadFollower }> {
  const head = await reader.head(key.serverId)
  const last = head === null ? null : await lastPosition(reader, head)
  const feed = new ChangeFeed(last, {
    store: reader,
    schedule,
    bounds: { ...FEED_BOUNDS, ...feedBounds },
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
  return { feed, follower }
}

/** Starts mirroring. Suspends the writer if a peer has a contradicting copy of the node's own chain. */
async function openMirrors(
  { path, durable }: Folder,
  { location, key: { privateKey }, writer }: OpenedStore,
  options: OpenLedgerOptions,
  { list, log, ownBlobs }: { list: PeerList; log: LedgerLog; ownBlobs: ChainBlobs },
): Promise<Mirrors> {
  const { platform = systemPlatform, attachmentBytesMax = ATTACHMENT_BYTES_MAX } = options
  const { allowPrivate = false, intervalMs = PEERS_INTERVAL_MS } = options.peers ?? {}
  const start = {
    ...{ folder: path, location, durable, ownKey: log.verifierKey, privateKey },
    ...{ allowPrivate, intervalMs, blobBytesMax: attachmentBytesMax },
  }
  const sharedEvidence = isDatabaseUrl(location)
    ? await openSharedText(location, OWN_EVIDENCE, platform.schedule)
    : null
  const mirrors = new Mirrors(start, list, { ownBlobs, platform, sharedEvidence })
  mirrors.ownCheckpoint = () => log.checkpoint()
  mirrors.onConflict = (message) => writer.suspend(new LedgerError('CHAIN_DOUBTED', message))
  await mirrors.begin()
  return mirrors
}

/** Opens this node as a witness of the chains of its peers, and of the logs in `witnessOf`. */
async function openWitness(
  { path, durable }: Folder,
  { location, key }: OpenedStore,
  { clock, witnessOf = [] }: OpenLedgerOptions,
  mirrors: Mirrors,
): Promise<LogWitness> {
  return new LogWitness({
    ...{ name: `${logOrigin(key.serverId)}/witness`, clock },
    change: await witnessState(location, durable ? path : null),
    findKey: (origin) =>
      mirrors.peerOfKey(origin)?.key ?? witnessOf.find(({ name }) => name === origin) ?? null,
  })
}

function scheduledVerification(
  { path, durable }: Folder,
  { location }: OpenedStore,
  options: OpenLedgerOptions,
): ScheduledVerification | null {
  const { clock, platform = systemPlatform, schedule = platform.schedule, verification } = options
  if (verification === undefined || verification === null) return null
  const context = { clock, schedule, threads: platform }
  return new ScheduledVerification(
    { location, folder: durable ? path : null },
    verification,
    context,
  )
}

/** Returns the packed position of the last entry of the block at `height`. */
async function lastPosition(reader: StoreReader, { height }: Head): Promise<number> {
  const [block] = await reader.blocks(reader.serverId, height, 1)
  return packPosition(height, (block?.entries.length ?? 1) - 1)
}

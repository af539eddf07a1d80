import type { StoreError, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { ChangeFeed } from '../feed/feed.ts'
import type { LedgerLog } from '../log/service.ts'
import type { LogWitness } from '../log/witness.ts'
import type { Witnesses } from '../log/witnesses.ts'
import type { Mirrors, OpenMirror } from '../peers/mirrors.ts'
import type { ItemHistory } from '../read/item-history.ts'
import type { LedgerReader } from '../read/ledger-reader.ts'
import type { LedgerReads } from '../read/reads.ts'
import type { AttachmentService } from '../write/attachments.ts'
import type { HeadFollower } from '../write/head-follower.ts'
import type { LedgerWriter } from '../write/writer.ts'
import type { LedgerWrites } from '../write/writes.ts'
import type { ScheduledVerification } from './scheduled-verification.ts'

/** The parts of an open ledger. They are independent of HTTP and of the storage engine. */
export interface LedgerService {
  readonly serverId: number
  readonly read: LedgerReads
  readonly history: ItemHistory
  readonly write: LedgerWrites
  readonly attachments: AttachmentService
  /** The store of this node, for its head, its size and its failures. */
  readonly store: StoreReader
  /** The queue of pending changes, through which `write` and `attachments` record. */
  readonly writer: LedgerWriter
  /** Reader for networks. Their threads open further readers of the same store. */
  readonly reader: LedgerReader
  /** Reports the new blocks of this and other processes. */
  readonly follower: HeadFollower
  /** The change feed of this node's chain. */
  readonly feed: ChangeFeed
  /** The Merkle tree over the chain, with its proofs and checkpoints. */
  readonly log: LedgerLog
  /** The witnesses that cosign the checkpoints of `log`. */
  readonly witnesses: Witnesses
  /** Cosigns the checkpoints of other logs. */
  readonly witness: LogWitness
  /** Copies of other nodes' chains. */
  readonly mirrors: Mirrors
  /** Verifies the store at intervals; null if this is not configured. */
  readonly verification: ScheduledVerification | null
}

/** Returns the reason why the node cannot write or read, or null. */
export function findOutage(ledger: LedgerService): LedgerError | StoreError | null {
  return ledger.writer.failure ?? ledger.store.readFailure() ?? ledger.follower.findFailure()
}

/** Returns the chain of `serverId`: this node's chain or a mirrored chain. Errors: SERVERID_UNKNOWN. */
export function requireChain(
  ledger: LedgerService,
  serverId: number,
): Pick<OpenMirror, 'reader' | 'log'> {
  if (serverId === ledger.serverId) return { reader: ledger.store, log: ledger.log }
  const mirror = ledger.mirrors.findMirror(serverId)
  if (mirror !== null) return mirror
  throw new LedgerError('SERVERID_UNKNOWN', `this node has no chain of server id ${serverId}`)
}

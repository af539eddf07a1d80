import { CodedError } from '../../base/coded-error.ts'
import {
  addGauge,
  addHistogram,
  addLabeledGauge,
  type HttpApp,
  type Registry,
  registerMetrics,
} from '../../http/index.ts'
import type { WitnessState } from '../log/witnesses.ts'
import type { ScheduledVerification } from '../node/scheduled-verification.ts'
import { findOutage, type LedgerService } from '../node/service.ts'
import type { PeerStatus } from '../peers/mirrors.ts'
import type { CommittedBlock } from '../write/messages.ts'

const BUCKETS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const BUCKETS_ENTRIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 10_000]
const BUCKETS_BYTES = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 67_108_864]

/** Serves `registry` with the metrics of `app` and of `ledger` at `GET /metrics`. */
export function ledgerMetrics(app: HttpApp, registry: Registry, ledger: LedgerService): void {
  registerMetrics(app, registry)
  writerMetrics(registry, ledger)
  storeMetrics(registry, ledger)
  feedMetrics(registry, ledger)
  peerMetrics(registry, ledger)
  witnessMetrics(registry, ledger)
  if (ledger.verification !== null) verificationMetrics(registry, ledger.verification)
}

/** Returns a function that adds a stored block to the histograms of commit time, entries and bytes. */
export function commitMetrics(registry: Registry): (block: CommittedBlock) => void {
  const histogram = addHistogram.bind(null, registry)
  const seconds = histogram('daicho_commit_seconds', 'Time until a block was durable', BUCKETS_S)
  const entries = histogram('daicho_commit_entries', 'Entries of a block', BUCKETS_ENTRIES)
  const bytes = histogram('daicho_commit_bytes', 'Bytes of the entries of a block', BUCKETS_BYTES)
  return (block) => {
    seconds(block.ms / 1_000)
    entries(block.entries)
    bytes(block.bytes)
  }
}

function writerMetrics(registry: Registry, ledger: LedgerService): void {
  addGauge(
    registry,
    'daicho_queue_units',
    'Pending requests with changes',
    () => ledger.writer.depth,
  )
  addGauge(
    registry,
    'daicho_queue_bytes',
    'Size of the pending requests with changes',
    () => ledger.writer.queueBytes,
  )
  addGauge(registry, 'daicho_ready', '0 while /readyz returns 503, else 1', () =>
    findOutage(ledger) === null ? 1 : 0,
  )
  const refuses = (code: string) => () => (ledger.writer.failure?.code === code ? 1 : 0)
  addGauge(
    registry,
    'daicho_writer_stopped',
    '1 if the store failed and writing has stopped',
    () => refuses('WRITER_STOPPED')() + refuses('STORE_ROLLED_BACK')(),
  )
  addGauge(
    registry,
    'daicho_store_unavailable',
    '1 if the database server did not answer the last change',
    () => refuses('STORE_UNAVAILABLE')() + refuses('OUTCOME_UNKNOWN')(),
  )
  addGauge(
    registry,
    'daicho_store_full',
    '1 if the last block was rejected because the disk was full',
    refuses('STORE_FULL'),
  )
  addGauge(registry, 'daicho_store_damaged', '1 if the last read of the store failed', () =>
    ledger.store.readFailure() !== null || refuses('STORE_DAMAGED')() === 1 ? 1 : 0,
  )
}

function storeMetrics(registry: Registry, ledger: LedgerService): void {
  /**
   * Adds a gauge that has no sample while its value cannot be read, so that the other metrics are still served.
   */
  const addRead = (name: string, help: string, read: () => Promise<number | null>) =>
    addGauge(registry, name, help, () =>
      read().catch((error: unknown) => {
        if (error instanceof CodedError) return null
        throw error
      }),
    )
  addRead('daicho_chain_blocks', 'Blocks of the chain', async () => {
    return (await ledger.read.chainSize()).blocks
  })
  addRead('daicho_chain_entries', 'Entries of the chain', async () => {
    return (await ledger.read.chainSize()).entries
  })
  addRead('daicho_newest_block_timestamp_seconds', 'Time of the newest block', async () => {
    const head = await ledger.store.head(ledger.serverId)
    return head === null ? null : head.timestamp / 1_000
  })
  addRead('daicho_store_file_bytes', 'Size of the file of the store', async () => {
    return (await ledger.store.diskUsage()).fileBytes
  })
  addRead(
    'daicho_store_log_bytes',
    'Size of the write-ahead log, whose changes are durable but not yet in the file',
    async () => (await ledger.store.diskUsage()).walBytes,
  )
  addRead('daicho_store_free_bytes', 'Free space on the disk of the store', async () => {
    return (await ledger.store.diskUsage()).freeBytes
  })
  addRead(
    'daicho_erasures_unfinished',
    'Erasures whose content may still be in free parts of the files of the store and the mirrors',
    async () => {
      const stores = [ledger.store, ...ledger.mirrors.readers()]
      return (await Promise.all(stores.map((store) => store.uncompacted()))).flat().length
    },
  )
}

function feedMetrics(registry: Registry, { feed }: LedgerService): void {
  addGauge(
    registry,
    'daicho_feed_followers',
    'Subscribers of the change feed',
    () => feed.subscribers,
  )
  addGauge(
    registry,
    'daicho_feed_held_bytes',
    'Bytes not yet sent to subscribers; bytes shared by several subscribers count once',
    () => feed.heldBytes,
  )
  addLabeledGauge(
    registry,
    'daicho_feed_left_total',
    'Ended subscriptions of the change feed, by reason',
    ['why'],
    () => Object.entries(feed.ended).map(([why, count]) => [{ why }, count]),
  )
}

function peerMetrics(registry: Registry, { mirrors }: LedgerService): void {
  const addPerPeer = (name: string, help: string, value: (peer: PeerStatus) => number) =>
    addLabeledGauge(registry, name, help, ['serverid', 'url'], () =>
      mirrors.peers().map((peer) => {
        return [{ serverid: `${peer.serverId}`, url: peer.url ?? '' }, value(peer)]
      }),
    )
  addPerPeer('daicho_peer_blocks', 'Blocks in the mirror', ({ blocks }) => blocks)
  addPerPeer(
    'daicho_peer_lag_blocks',
    'Signed blocks that are not mirrored yet',
    ({ blocks, ofBlocks }) => ofBlocks - blocks,
  )
  addPerPeer(
    'daicho_peer_absent_contents',
    'Missing blobs that the peer does not have either',
    ({ absent }) => absent,
  )
  addPerPeer('daicho_peer_failing', '1 if the last sync with the peer failed', ({ error }) =>
    error === null ? 0 : 1,
  )
  addPerPeer(
    'daicho_peer_frozen',
    '1 if the key of the chain has signed two histories',
    ({ isFrozen }) => (isFrozen ? 1 : 0),
  )
  addGauge(
    registry,
    'daicho_own_evidence',
    "1 if the node's own key has signed two histories",
    () => (mirrors.ownEvidence === null ? 0 : 1),
  )
}

function witnessMetrics(registry: Registry, { witnesses }: LedgerService): void {
  const addPerWitness = (name: string, help: string, value: (witness: WitnessState) => number) =>
    addLabeledGauge(registry, name, help, ['witness'], () =>
      witnesses.states().map((witness) => [{ witness: witness.name }, value(witness)]),
    )
  addPerWitness(
    'daicho_witness_blocks',
    'Blocks of the newest checkpoint that the witness has cosigned',
    ({ size }) => size,
  )
  addPerWitness(
    'daicho_witness_failing',
    '1 if the witness has not cosigned the last checkpoint sent to it',
    ({ error }) => (error === null ? 0 : 1),
  )
}

function verificationMetrics(registry: Registry, verification: ScheduledVerification): void {
  addGauge(
    registry,
    'daicho_verification_passed_timestamp_seconds',
    'Time of the last scheduled verification that found no difference, since the Unix epoch',
    () => (verification.lastPassed === null ? null : verification.lastPassed / 1_000),
  )
  const isResult = (result: string) => () => (verification.state.result === result ? 1 : 0)
  addGauge(
    registry,
    'daicho_verification_failed',
    '1 if the last scheduled verification found a difference',
    isResult('failed'),
  )
  addGauge(
    registry,
    'daicho_verification_unfinished',
    '1 if the last scheduled verification could not be finished',
    isResult('unfinished'),
  )
  addGauge(
    registry,
    'daicho_verification_seconds',
    'Duration of the last scheduled verification',
    () => ('seconds' in verification.state ? verification.state.seconds : null),
  )
}

import { CodedError } from '../base/coded-error.ts'
import { type Figures, type HttpApp, registerMetrics } from '../http/index.ts'
import type { ShownPeer } from './peers/mirrors.ts'
import type { LedgerService } from './service.ts'

/** Counts the requests to `app`, and serves these and the ledger's own figures at `GET /metrics`. */
export function ledgerFigures(app: HttpApp, ledger: LedgerService): void {
  const figures = registerMetrics(app, () => ledger.commits.text())
  writerFigures(figures, ledger)
  storeFigures(figures, ledger)
  feedFigures(figures, ledger)
  peerFigures(figures, ledger)
}

/** Adds a figure without labels; one that cannot be read now has no line, so that the others are shown. */
function single(
  figures: Figures,
  name: string,
  help: string,
  value: () => number | Promise<number>,
): void {
  figures.add({
    name,
    help,
    labelNames: [],
    async collect() {
      try {
        this.set(await value())
      } catch (error) {
        if (!(error instanceof CodedError)) throw error
      }
    },
  })
}

function writerFigures(figures: Figures, ledger: LedgerService): void {
  single(
    figures,
    'daicho_queue_units',
    'Requests with changes that wait or are being written',
    () => ledger.queue.units,
  )
  single(figures, 'daicho_queue_bytes', 'Their size', () => ledger.queue.bytes)
  const refuses = (code: string) => () => (ledger.writesRefused?.code === code ? 1 : 0)
  single(
    figures,
    'daicho_writer_stopped',
    'Whether the store failed and nothing is written any more (1)',
    refuses('WRITER_STOPPED'),
  )
  single(
    figures,
    'daicho_store_full',
    'Whether there was no room for the last block (1)',
    refuses('STORE_FULL'),
  )
  single(
    figures,
    'daicho_store_damaged',
    'Whether a part of the store could not be read (1)',
    () => (ledger.readFailure !== null || refuses('STORE_DAMAGED')() === 1 ? 1 : 0),
  )
}

function storeFigures(figures: Figures, ledger: LedgerService): void {
  single(figures, 'daicho_chain_blocks', 'Blocks of the chain', async () => {
    return (await ledger.chainSize()).blocks
  })
  single(figures, 'daicho_chain_entries', 'Entries of the chain', async () => {
    return (await ledger.chainSize()).entries
  })
  single(figures, 'daicho_store_file_bytes', 'Size of the file of the store', async () => {
    return (await ledger.diskUsage()).fileBytes
  })
  single(
    figures,
    'daicho_store_log_bytes',
    'Size of the log beside it, of what is durable but not yet in the file',
    async () => (await ledger.diskUsage()).walBytes,
  )
}

function feedFigures(figures: Figures, { feed }: LedgerService): void {
  single(figures, 'daicho_feed_followers', 'Clients that follow the changes', () => feed.followers)
  single(
    figures,
    'daicho_feed_held_bytes',
    'Bytes that their connections have not taken yet, shared ones counted once',
    () => feed.heldBytes,
  )
  figures.add({
    name: 'daicho_feed_left_total',
    help: 'Clients that follow no more: they left, took nothing, held too much, failed, node closing',
    labelNames: ['why'],
    collect() {
      for (const [why, count] of Object.entries(feed.leavings)) this.set({ why }, count)
    },
  })
}

function peerFigures(figures: Figures, { mirrors }: LedgerService): void {
  const labelNames = ['serverid', 'url'] as const
  const perPeer = (name: string, help: string, value: (peer: ShownPeer) => number) =>
    figures.add({
      name,
      help,
      labelNames,
      collect() {
        for (const peer of mirrors.peers()) {
          this.set({ serverid: `${peer.serverId}`, url: peer.url ?? '' }, value(peer))
        }
      },
    })
  perPeer('daicho_peer_blocks', 'Blocks that the mirror has', ({ blocks }) => blocks)
  perPeer(
    'daicho_peer_lag_blocks',
    'Blocks that are signed and not mirrored yet',
    ({ blocks, ofBlocks }) => ofBlocks - blocks,
  )
  perPeer(
    'daicho_peer_absent_contents',
    'Contents of attachments that are not here and that the peer does not have either',
    ({ absent }) => absent,
  )
  perPeer('daicho_peer_failing', 'Whether the last round with the peer failed (1)', ({ error }) =>
    error === null ? 0 : 1,
  )
  perPeer(
    'daicho_peer_frozen',
    'Whether the key of the chain has signed two histories (1)',
    ({ evidence }) => (evidence === null ? 0 : 1),
  )
  single(
    figures,
    'daicho_own_evidence',
    "Whether the node's own key has signed two histories (1)",
    () => (mirrors.ownEvidence === null ? 0 : 1),
  )
}

import { Histogram, histogramHead } from '../../http/histogram.ts'
import type { CommittedBlock } from './messages.ts'

const BUCKETS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const BUCKETS_ENTRIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 10_000]
const BUCKETS_BYTES = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 67_108_864]

/** How large the blocks of this process were, and how long storing them took. */
export class CommitTally {
  readonly #seconds = new Histogram(BUCKETS_S)
  readonly #entries = new Histogram(BUCKETS_ENTRIES)
  readonly #bytes = new Histogram(BUCKETS_BYTES)

  /** Counts one block. */
  count({ ms, entries, bytes }: CommittedBlock): void {
    this.#seconds.observe(ms / 1_000)
    this.#entries.observe(entries)
    this.#bytes.observe(bytes)
  }

  /** The figures as Prometheus text. */
  text(): string {
    return (
      histogramHead('daicho_commit_seconds', 'Time until a block was on the disk') +
      this.#seconds.lines('daicho_commit_seconds', '') +
      histogramHead('daicho_commit_entries', 'Entries of a block') +
      this.#entries.lines('daicho_commit_entries', '') +
      histogramHead('daicho_commit_bytes', 'Bytes of the entries of a block') +
      this.#bytes.lines('daicho_commit_bytes', '')
    )
  }
}

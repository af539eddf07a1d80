import type { Schedule } from '../base/clock.ts'

/** Where progress is shown. */
type Output = Pick<NodeJS.WriteStream, 'isTTY' | 'write'>

/** Shows how far long work is: a bar on a terminal, a plain line now and then elsewhere. */
export class ProgressLine {
  readonly #out: Output
  readonly #label: string
  #shownAtMs = 0
  #shownTenth = -1

  /** `out` is stderr, so that results on stdout stay clean. */
  constructor(label: string, out: Output) {
    this.#label = label
    this.#out = out
  }

  /** `share` is 0..1; `detail` follows the bar. */
  update(share: number, detail: string, nowMs: number): void {
    const percent = `${Math.floor(share * 100)}`.padStart(3)
    if (this.#out.isTTY) {
      if (nowMs - this.#shownAtMs < 100 && share < 1) return
      this.#shownAtMs = nowMs
      const filled = Math.round(share * 24)
      const bar = '█'.repeat(filled) + '░'.repeat(24 - filled)
      this.#out.write(`\r${this.#label} ${bar} ${percent} %  ${detail}\u001b[K`)
      return
    }
    const tenth = Math.floor(share * 10)
    if (tenth === this.#shownTenth) return
    this.#shownTenth = tenth
    this.#out.write(`${this.#label} ${percent} %  ${detail}\n`)
  }

  /** Ends the line. */
  end(): void {
    if (this.#out.isTTY && this.#shownAtMs > 0) this.#out.write('\r\u001b[K')
  }
}

/** Milliseconds between two lines of `reportEvery`. */
const REPORT_MS = 5_000

/** Writes a line with `text()` every five seconds, whatever the work waits for. Returns a function that stops it. */
export function reportEvery(
  text: () => string,
  schedule: Schedule,
  out: Pick<Output, 'write'>,
): () => void {
  let stop = () => {}
  const next = () => {
    stop = schedule.after(REPORT_MS, () => {
      out.write(`${text()}\n`)
      next()
    })
  }
  next()
  return () => stop()
}

/** The share of a chain that is done, 0..1. */
export function shareOf({ blocks, ofBlocks }: { blocks: number; ofBlocks: number }): number {
  return ofBlocks === 0 ? 1 : Math.min(1, blocks / ofBlocks)
}

import { type Clock, type Schedule, systemClock } from '../../base/clock.ts'
import { EXIT, Exit } from '../exit.ts'

type Output = Pick<NodeJS.WriteStream, 'isTTY' | 'write'>

/** Characters that move the cursor of a terminal or reorder its text, except the line feed. */
const CONTROLS =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Replaces control characters by `\uXXXX`, which JSON parsers turn back into the characters. */
export function escapeControls(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Prints `result` as one line of JSON if `isJson`, else `text`; escapes control characters. */
export function print(isJson: boolean | undefined, result: unknown, text: string): void {
  process.stdout.write(`${escapeControls(isJson === true ? JSON.stringify(result) : text)}\n`)
}

/** Throws Exit (usage) if `out` is stdout and the result is to be printed there as JSON. */
export function requireOwnOutput(out: string, isJson: boolean | undefined): void {
  if (out !== '-' || isJson !== true) return
  const message = '--json cannot be combined with --out -, because both write to stdout'
  throw new Exit(EXIT.usage, message)
}

type Field = string | number | null

/** Formats one line for each field, or for each of its values, with all values in one column. Leaves out null. */
export function formatFields(fields: Readonly<Record<string, Field | readonly Field[]>>): string {
  const lines = Object.entries(fields).flatMap(([name, values]) =>
    [values].flat().flatMap((value) => (value === null ? [] : [`${name.padEnd(11)}${value}`])),
  )
  return lines.join('\n')
}

/** Formats rows of cells as columns. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const [first = []] = rows
  const widths = first.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
  return lines.map((line) => line.trimEnd()).join('\n')
}

/** Interval between progress lines if the total is unknown and the output is not a terminal. */
const LINE_MS = 10_000

/** Shows the progress of a long task: a bar on a terminal, otherwise one line per 10 %. */
export class ProgressLine {
  readonly #out: Output
  readonly #label: string
  readonly #clock: Clock
  #shownAtMs = 0
  #shownTenth = -1

  constructor(label: string, out: Output, clock: Clock) {
    this.#label = label
    this.#out = out
    this.#clock = clock
  }

  /** Shows progress. `share`: from 0 to 1, or null if the total is unknown. `detail`: the text after the bar. */
  update(share: number | null, detail: string): void {
    if (share === null) {
      this.#updateUnknown(detail)
      return
    }
    const percent = `${Math.floor(share * 100)}`.padStart(3)
    if (this.#out.isTTY) {
      const nowMs = this.#clock.now()
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

  #updateUnknown(detail: string): void {
    const nowMs = this.#clock.now()
    if (this.#out.isTTY) {
      if (nowMs - this.#shownAtMs < 100) return
      this.#out.write(`\r${this.#label}  ${detail}\u001b[K`)
    } else {
      if (this.#shownAtMs === 0) this.#shownAtMs = nowMs
      if (nowMs - this.#shownAtMs < LINE_MS) return
      this.#out.write(`${this.#label}  ${detail}\n`)
    }
    this.#shownAtMs = nowMs
  }

  /** Clears the bar. */
  end(): void {
    if (this.#out.isTTY && this.#shownAtMs > 0) this.#out.write('\r\u001b[K')
  }
}

/**
 * Runs `work` with a progress line on stderr, so that stdout contains only results. Returns the result and the duration
 * in seconds.
 */
export async function withProgress<Result>(
  label: string,
  work: (line: ProgressLine) => Promise<Result>,
): Promise<{ readonly result: Result; readonly seconds: number }> {
  const startedMs = systemClock.now()
  const line = new ProgressLine(label, process.stderr, systemClock)
  try {
    const result = await work(line)
    return { result, seconds: (systemClock.now() - startedMs) / 1000 }
  } finally {
    line.end()
  }
}

const REPORT_MS = 5_000

/** Prints `text()` every five seconds until the returned function is called. */
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

/** Returns the fraction of the blocks that are done, from 0 to 1. */
export function shareDone({ blocks, ofBlocks }: { blocks: number; ofBlocks: number }): number {
  return ofBlocks === 0 ? 1 : Math.min(1, blocks / ofBlocks)
}

/** Returns a number with its noun, such as `1 block` or `2 blocks`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`
}

/** Returns duration and speed, such as `12.3 s, 456 entries/s`. */
export function paceText(done: number, seconds: number, what = 'entries'): string {
  return `${seconds.toFixed(1)} s, ${Math.round(done / Math.max(seconds, 0.001))} ${what}/s`
}

import { type Clock, systemClock } from '../../base/clock.ts'
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

/** Prints `message` to stderr; escapes control characters. */
export function warn(message: string): void {
  process.stderr.write(`daicho: ${escapeControls(message)}\n`)
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

/** Interval between two updates on a terminal. */
const REDRAW_MS = 100
/** Interval between progress lines if the total is unknown and the output is not a terminal. */
const LINE_MS = 10_000
const BAR_LENGTH = 24

/** Shows the progress of a long task: a bar on a terminal, otherwise one line per 10 %. */
export class ProgressLine {
  readonly #out: Output
  readonly #label: string
  readonly #clock: Clock
  #shownAtMs: number | null = null
  #shownTenth = -1

  constructor(label: string, out: Output, clock: Clock) {
    this.#label = label
    this.#out = out
    this.#clock = clock
  }

  /** Shows progress. `share`: from 0 to 1, or null if the total is unknown. `detail`: the text after the bar. */
  update(share: number | null, detail: string): void {
    if (!this.#isDue(share)) return
    const { isTTY } = this.#out
    const filled = Math.round((share ?? 0) * BAR_LENGTH)
    const bar = isTTY ? ` ${'█'.repeat(filled)}${'░'.repeat(BAR_LENGTH - filled)}` : ''
    const known = share === null ? '' : `${bar} ${`${Math.floor(share * 100)}`.padStart(3)} %`
    const text = `${this.#label}${known}  ${detail}`
    this.#out.write(isTTY ? `\r${text}\u001b[K` : `${text}\n`)
  }

  #isDue(share: number | null): boolean {
    if (share !== null && !this.#out.isTTY) {
      const before = this.#shownTenth
      this.#shownTenth = Math.floor(share * 10)
      return before !== this.#shownTenth
    }
    const nowMs = this.#clock.now()
    const pauseMs = this.#out.isTTY ? REDRAW_MS : LINE_MS
    // The first line to a file follows after an interval, so that short tasks print none.
    const isFirst = this.#shownAtMs === null
    if (isFirst && !this.#out.isTTY) this.#shownAtMs = nowMs
    const isDue = nowMs - (this.#shownAtMs ?? Number.NEGATIVE_INFINITY) >= pauseMs || share === 1
    if (isDue) this.#shownAtMs = nowMs
    return isDue
  }

  /** Shows the progress of a task that reads a chain. */
  readonly showEntries = (done: { blocks: number; ofBlocks: number; entries: number }): void => {
    this.update(shareDone(done), `${done.entries} entries`)
  }

  /** Clears the bar. */
  end(): void {
    if (this.#out.isTTY && this.#shownAtMs !== null) this.#out.write('\r\u001b[K')
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

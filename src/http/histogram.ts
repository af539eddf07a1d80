/**
 * A histogram as Prometheus has it, which costs a few additions per observation and is put into
 * words only when somebody scrapes. The metrics library builds a key of text for every observation.
 */
export class Histogram {
  /** Upper bounds, ascending. */
  readonly #bounds: readonly number[]
  /** Observations up to each bound and above the one before. */
  readonly #buckets: number[]
  #count = 0
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#buckets = new Array<number>(bounds.length).fill(0)
  }

  /** Counts one observation. */
  observe(value: number): void {
    this.#count += 1
    this.#sum += value
    // A loop: this runs for every request, and `findIndex` would make a function each time.
    for (let at = 0; at < this.#bounds.length; at += 1) {
      if (value > (this.#bounds[at] ?? 0)) continue
      this.#buckets[at] = (this.#buckets[at] ?? 0) + 1
      return
    }
  }

  /** Its lines under `name`; `labels` is `a="b",c="d"`, or empty. */
  lines(name: string, labels: string): string {
    const more = labels === '' ? '' : `,${labels}`
    const all = labels === '' ? '' : `{${labels}}`
    let upTo = 0
    const lines = this.#buckets.map((count, at) => {
      upTo += count
      return `${name}_bucket{le="${this.#bounds[at]}"${more}} ${upTo}\n`
    })
    return (
      lines.join('') +
      `${name}_bucket{le="+Inf"${more}} ${this.#count}\n` +
      `${name}_sum${all} ${this.#sum}\n` +
      `${name}_count${all} ${this.#count}\n`
    )
  }
}

/** The lines that introduce a histogram. */
export function histogramHead(name: string, help: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} histogram\n`
}

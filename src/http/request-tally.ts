/** Upper bounds of the latency buckets, seconds. */
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Requests of one method, route and status. */
interface Line {
  /** `method="…",route="…",status="…"`. */
  readonly labels: string
  count: number
  sumS: number
  /** Requests that took up to each of `BUCKETS_S` and longer than the one before. */
  readonly buckets: number[]
}

/** Counts one request: its status, and how long it took in milliseconds. */
export type Count = (status: number, ms: number) => void

/**
 * A histogram of requests that costs a few additions per request and is put into words only when
 * somebody scrapes. The metrics library builds a key of text for every observation instead.
 */
export class RequestTally {
  readonly #lines: Line[] = []

  /** How requests of one method and route are counted. */
  counterOf(method: string, route: string): Count {
    const byStatus = new Map<number, Line>()
    return (status, ms) => {
      const line = byStatus.get(status) ?? this.#add(byStatus, method, route, status)
      const seconds = ms / 1_000
      line.count += 1
      line.sumS += seconds
      const at = BUCKETS_S.findIndex((bound) => seconds <= bound)
      if (at !== -1) line.buckets[at] = (line.buckets[at] ?? 0) + 1
    }
  }

  /** The figures as Prometheus text, under `name`. */
  text(name: string, help: string): string {
    const head = `# HELP ${name} ${help}\n# TYPE ${name} histogram\n`
    return head + this.#lines.map((line) => textOfLine(name, line)).join('')
  }

  #add(byStatus: Map<number, Line>, method: string, route: string, status: number): Line {
    const labels = `method="${escaped(method)}",route="${escaped(route)}",status="${status}"`
    const buckets = new Array<number>(BUCKETS_S.length).fill(0)
    const line = { labels, count: 0, sumS: 0, buckets }
    byStatus.set(status, line)
    this.#lines.push(line)
    return line
  }
}

function textOfLine(name: string, { labels, count, sumS, buckets }: Line): string {
  let upTo = 0
  const lines = buckets.map((more, at) => {
    upTo += more
    return `${name}_bucket{le="${BUCKETS_S[at]}",${labels}} ${upTo}\n`
  })
  return (
    lines.join('') +
    `${name}_bucket{le="+Inf",${labels}} ${count}\n` +
    `${name}_sum{${labels}} ${sumS}\n` +
    `${name}_count{${labels}} ${count}\n`
  )
}

/** `text` as the value of a label. Source: Prometheus text exposition format, 0.0.4. */
function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}

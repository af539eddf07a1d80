import { Histogram, histogramHead } from './histogram.ts'

/** Upper bounds of the latency buckets, seconds. */
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Requests of one method, route and status. */
interface Line {
  /** `method="…",route="…",status="…"`. */
  readonly labels: string
  readonly seconds: Histogram
}

/** Counts one request: its status, and how long it took in milliseconds. */
export type Count = (status: number, ms: number) => void

/** How long requests took, by method, route and status. */
export class RequestTally {
  readonly #lines: Line[] = []

  /** How requests of one method and route are counted. */
  counterOf(method: string, route: string): Count {
    const byStatus = new Map<number, Histogram>()
    return (status, ms) => {
      const seconds = byStatus.get(status) ?? this.#add(byStatus, method, route, status)
      seconds.observe(ms / 1_000)
    }
  }

  /** The figures as Prometheus text, under `name`. */
  text(name: string, help: string): string {
    const lines = this.#lines.map(({ labels, seconds }) => seconds.lines(name, labels))
    return histogramHead(name, help) + lines.join('')
  }

  #add(byStatus: Map<number, Histogram>, method: string, route: string, status: number): Histogram {
    const labels = `method="${escaped(method)}",route="${escaped(route)}",status="${status}"`
    const seconds = new Histogram(BUCKETS_S)
    byStatus.set(status, seconds)
    this.#lines.push({ labels, seconds })
    return seconds
  }
}

/** `text` as the value of a label. Source: Prometheus text exposition format, 0.0.4. */
function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Gauge, type Registry } from 'prom-client'
import type { HttpApp } from './component.ts'

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** The status counted for a request whose client disconnected before the reply was complete. */
const CLIENT_GONE = 499
/** Sampling interval of the event loop delay. */
const LOOP_RESOLUTION_MS = 20
const NS_PER_S = 1e9
const MICROSECONDS = 1e6

/** One sample of a gauge with labels. */
export type Sample<Label extends string> = readonly [labels: Record<Label, string>, value: number]

/** Adds a gauge whose value `read` returns on each scrape. The gauge has no sample while `read` returns null. */
export function addGauge(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | null | Promise<number | null>,
): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await read()
      if (value === null) this.remove()
      else this.set(value)
    },
  })
}

/** Adds a gauge with labels whose samples `read` returns on each scrape. */
export function addLabeledGauge<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  read: () => Iterable<Sample<Label>>,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset()
      for (const [labels, value] of read()) this.set(labels, value)
    },
  })
}

interface Latencies {
  /** The labels in Prometheus syntax: `method="…",route="…",status="…"`. */
  readonly labels: string
  /** Number of requests per bucket, not cumulative. */
  readonly buckets: number[]
  count: number
  sum: number
}

/**
 * A Prometheus histogram of requests by method, route and status. Replaces prom-client's `Histogram`, which builds a
 * string key for each observation. This took 7 % of the CPU time of a GET.
 */
export class RequestMetrics {
  readonly #all: Latencies[] = []

  /** Returns a function that counts one request with this method and route. */
  counter(method: string, route: string): (status: number, ms: number) => void {
    const byStatus = new Map<number, Latencies>()
    return (status, ms) => {
      let latencies = byStatus.get(status)
      if (latencies === undefined) {
        const labels = `method="${escaped(method)}",route="${escaped(route)}",status="${status}"`
        latencies = { labels, buckets: BUCKETS_S.map(() => 0), count: 0, sum: 0 }
        byStatus.set(status, latencies)
        this.#all.push(latencies)
      }
      const seconds = ms / 1_000
      latencies.count += 1
      latencies.sum += seconds
      const at = BUCKETS_S.findIndex((bound) => seconds <= bound)
      if (at !== -1) latencies.buckets[at] = (latencies.buckets[at] ?? 0) + 1
    }
  }

  /** Returns the histogram as Prometheus text (format 0.0.4). */
  text(): string {
    const name = 'daicho_http_request_seconds'
    const help =
      'Requests by route and status, with the time from the headers to the last byte sent'
    const lines = this.#all.flatMap(({ labels, buckets, count, sum }) => {
      let upTo = 0
      const cumulative = buckets.map((requests, at) => {
        upTo += requests
        return `${name}_bucket{le="${BUCKETS_S[at]}",${labels}} ${upTo}\n`
      })
      const total = `${name}_bucket{le="+Inf",${labels}} ${count}\n`
      return [
        ...cumulative,
        total,
        `${name}_sum{${labels}} ${sum}\n${name}_count{${labels}} ${count}\n`,
      ]
    })
    return `# HELP ${name} ${help}\n# TYPE ${name} histogram\n${lines.join('')}`
  }
}

function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`))
}

/**
 * Counts and times requests to the routes declared after this call, and serves these metrics and `registry` at
 * `GET /metrics` as Prometheus text.
 *
 * The label `route` is the route's pattern, never the path or query, so that the number of labels is limited and no
 * label contains a secret. Requests without a route have the label `none`.
 */
export function registerMetrics(app: HttpApp, registry: Registry): void {
  const requests = new RequestMetrics()
  app.addHook('onRoute', (route) => {
    // Each route has its own hook with its pattern, because looking up the pattern for each request costs more.
    const count = countReply(requests.counter(String(route.method), route.url))
    route.onRequest = [count, ...[route.onRequest ?? []].flat()]
  })
  const countUnrouted = countReply(requests.counter('ANY', 'none'))
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) countUnrouted(request, reply, done)
    else done()
  })
  addProcessMetrics(app, registry)
  // Listeners that do not require tokens ignore the scope.
  const route = { schema: { hide: true }, config: { scope: 'node:metrics' } } as const
  app.get('/metrics', route, async (_request, reply) =>
    reply.type(registry.contentType).send(`${requests.text()}\n${await registry.metrics()}`),
  )
}

/** Returns a hook that calls `count` when the reply is complete or the client has disconnected. */
function countReply(count: (status: number, ms: number) => void) {
  return ({ arrivedMs }: FastifyRequest, { raw }: FastifyReply, done: () => void): void => {
    raw.on('close', () => {
      const status = raw.writableFinished ? raw.statusCode : CLIENT_GONE
      count(status, performance.now() - arrivedMs)
    })
    done()
  }
}

function addProcessMetrics(app: HttpApp, registry: Registry): void {
  const delay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  delay.enable()
  app.addHook('onClose', async () => void delay.disable())
  addLabeledGauge(
    registry,
    'daicho_event_loop_delay_seconds',
    'Delay of the event loop since the previous scrape, by quantile (1 is the maximum)',
    ['quantile'],
    () => {
      const seconds = { 0.5: delay.percentile(50), 0.99: delay.percentile(99), 1: delay.max }
      delay.reset()
      return Object.entries(seconds).map(([quantile, ns]) => [{ quantile }, ns / NS_PER_S])
    },
  )
  addGauge(registry, 'process_resident_memory_bytes', 'Resident memory of the process', () =>
    process.memoryUsage.rss(),
  )
  addGauge(
    registry,
    'process_cpu_seconds_total',
    'CPU time of the process, user and system',
    () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / MICROSECONDS
    },
  )
  addGauge(registry, 'process_uptime_seconds', 'Time since the process started', () =>
    process.uptime(),
  )
}

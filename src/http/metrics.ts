import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { HttpApp } from './component.ts'

/** Media type of the Prometheus text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** The status counted for a request whose client disconnected before the reply was complete. */
const CLIENT_GONE = 499
/** Sampling interval of the event loop delay. */
const LOOP_RESOLUTION_MS = 20
const NS_PER_S = 1e9
const MICROSECONDS = 1e6

export type Sample<Label extends string> = readonly [labels: Record<Label, string>, value: number]

/** Metrics in registration order. */
export class Registry {
  readonly #texts: (() => string | Promise<string>)[] = []

  /** Adds a metric. `samples` returns its lines on each scrape. */
  add(
    [name, help]: readonly [name: string, help: string],
    type: 'gauge' | 'histogram',
    samples: () => string | Promise<string>,
  ): void {
    const head = `# HELP ${name} ${escapedHelp(help)}\n# TYPE ${name} ${type}\n`
    this.#texts.push(async () => head + (await samples()))
  }

  /** Returns the metrics as Prometheus text (format 0.0.4). */
  async metrics(): Promise<string> {
    return (await Promise.all(this.#texts.map((text) => text()))).join('\n')
  }
}

/** Adds a gauge whose value `read` returns on each scrape. The gauge has no sample while `read` returns null. */
export function addGauge(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | null | Promise<number | null>,
): void {
  registry.add([name, help], 'gauge', async () => {
    const value = await read()
    return value === null ? '' : `${name} ${formatNumber(value)}\n`
  })
}

/** Adds a gauge with labels whose samples `read` returns on each scrape. Of samples with equal labels, the last counts. */
export function addLabeledGauge<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  read: () => Iterable<Sample<Label>>,
): void {
  registry.add([name, help], 'gauge', () => {
    const values = new Map<string, number>()
    for (const [labels, value] of read()) {
      values.set(formatLabels(labelNames.map((label) => [label, labels[label]])), value)
    }
    return [...values]
      .map(([labels, value]) => `${name}{${labels}} ${formatNumber(value)}\n`)
      .join('')
  })
}

/** The counts of one series of a histogram, which has its own labels. */
class Series {
  readonly #bounds: readonly number[]
  /** Number of observations per bucket, not cumulative. */
  readonly #buckets: number[]
  #count = 0
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#buckets = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.#count += 1
    this.#sum += value
    const at = this.#bounds.findIndex((bound) => value <= bound)
    if (at !== -1) this.#buckets[at] = (this.#buckets[at] ?? 0) + 1
  }

  /** Returns the samples. `labels` is empty or has the labels in Prometheus syntax: `method="…",route="…"`. */
  text(name: string, labels: string): string {
    let upTo = 0
    const more = labels === '' ? '' : `,${labels}`
    const own = labels === '' ? '' : `{${labels}}`
    const lines = this.#buckets.map((count, at) => {
      upTo += count
      return `${name}_bucket{le="${this.#bounds[at]}"${more}} ${upTo}\n`
    })
    lines.push(`${name}_bucket{le="+Inf"${more}} ${this.#count}\n`)
    return `${lines.join('')}${name}_sum${own} ${this.#sum}\n${name}_count${own} ${this.#count}\n`
  }
}

/** Adds a histogram without labels, whose buckets have the upper bounds `bounds`. Returns the function that observes. */
export function addHistogram(
  registry: Registry,
  name: string,
  help: string,
  bounds: readonly number[],
): (value: number) => void {
  const series = new Series(bounds)
  registry.add([name, help], 'histogram', () => series.text(name, ''))
  return (value) => series.observe(value)
}

/** A histogram of requests by method, route and status. */
export class RequestMetrics {
  readonly #all: (readonly [labels: string, Series])[] = []

  constructor(registry: Registry) {
    const name = 'daicho_http_request_seconds'
    const help =
      'Requests by route and status, with the time from the headers to the last byte sent'
    registry.add([name, help], 'histogram', () =>
      this.#all.map(([labels, series]) => series.text(name, labels)).join(''),
    )
  }

  /** Returns a function that counts one request with this method and route. */
  counter(method: string, route: string): (status: number, ms: number) => void {
    const byStatus = new Map<number, Series>()
    return (status, ms) => {
      let series = byStatus.get(status)
      if (series === undefined) {
        const labels = { method, route, status: `${status}` }
        series = new Series(BUCKETS_S)
        byStatus.set(status, series)
        this.#all.push([formatLabels(Object.entries(labels)), series])
      }
      series.observe(ms / 1_000)
    }
  }
}

function formatLabels(labels: readonly (readonly [name: string, value: string])[]): string {
  return labels
    .map(([name, value]) => `${name}="${escapedHelp(value).replaceAll('"', '\\"')}"`)
    .join()
}

function escapedHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

/** Formats a number as Prometheus parses it: infinity is `+Inf` or `-Inf`. */
function formatNumber(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return `${value}`
  return value > 0 ? '+Inf' : '-Inf'
}

/**
 * Counts and times requests to the routes declared after this call, and serves these metrics and `registry` at
 * `GET /metrics` as Prometheus text.
 *
 * The label `route` is the route's pattern, never the path or query, so that the number of labels is limited and no
 * label contains a secret. Requests without a route have the label `none`. `isPublic`: anyone may read the metrics, so
 * they omit the denials of all listeners.
 */
export function registerMetrics(app: HttpApp, registry: Registry, isPublic = false): void {
  const requests = new RequestMetrics(registry)
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
  if (!isPublic) {
    addLabeledGauge(
      registry,
      'daicho_denials_total',
      'Failed log-ins, refused tokens, missing scopes and throttled addresses of all components of the process',
      ['component', 'reason'],
      () => app.denials.samples(),
    )
  }
  addProcessMetrics(app, registry)
  // Listeners that do not require tokens ignore the scope.
  const route = { schema: { hide: true }, config: { scope: 'node:metrics' } } as const
  app.get('/metrics', route, async (_request, reply) =>
    reply.type(CONTENT_TYPE).send(await registry.metrics()),
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

import type { Server, ServerResponse } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { HttpApp } from './component.ts'
import { CountedResponse } from './counted-response.ts'
import { Figures } from './figures.ts'
import { type Count, RequestTally } from './request-tally.ts'

/** How often the event loop's delay is sampled, milliseconds. */
const LOOP_RESOLUTION_MS = 20
const NANOSECONDS = 1e9
const MICROSECONDS = 1e6

const REQUESTS_NAME = 'daicho_http_request_seconds'
const REQUESTS_HELP =
  'Requests by route and status, and the time from arrival to the last byte handed over'

/** Has `response` counted by `count` when it has ended; in tests without a socket it is none of ours. */
function countBy(response: ServerResponse, count: Count): void {
  if (response instanceof CountedResponse) response.count = count
}

/** How each listener with figures counts requests that no route takes. */
const unrouted = new WeakMap<Server, Count>()

/** Has `response`, to a request that no route of the listener with this `server` takes, counted. */
export function countUnrouted(server: Server, response: ServerResponse): void {
  const count = unrouted.get(server)
  if (count !== undefined) countBy(response, count)
}

/**
 * Counts and times every request of `app`, and serves the figures at `GET /metrics` as Prometheus
 * text. Returns the listener's own figures: a component adds its own there, and what is text
 * already through `more`.
 *
 * Labels hold the route's pattern, never the path or the query, so their number is bounded and no
 * secret gets into them. A request that no route takes has the route `none`.
 *
 * Call it before the routes are mounted: only later routes are counted.
 */
export function registerMetrics(app: HttpApp, more: () => string = () => ''): Figures {
  const figures = new Figures()
  const tally = new RequestTally()
  app.addHook('onRoute', (route) => {
    // A hook of the route's own knows its pattern; asking the request for it costs more than the
    // count. A route of several methods is counted under all of them together.
    const count = tally.counterOf(String(route.method), route.url)
    const others = [route.onRequest ?? []].flat()
    route.onRequest = [
      (_request, reply, done) => {
        countBy(reply.raw, count)
        done()
      },
      ...others,
    ]
  })
  unrouted.set(app.server, tally.counterOf('ANY', 'none'))
  const stop = addProcessFigures(figures)
  app.addHook('onClose', async () => stop())
  // The scope is for listeners that require tokens; the others do not look at it.
  const route = { schema: { hide: true }, config: { scope: 'node:metrics' } } as const
  app.get('/metrics', route, async (_request, reply) =>
    reply
      .type(figures.contentType)
      .send(tally.text(REQUESTS_NAME, REQUESTS_HELP) + more() + (await figures.text())),
  )
  return figures
}

/** Adds what is true of the whole process; returns how to stop sampling. */
function addProcessFigures(figures: Figures): () => void {
  const delay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  delay.enable()
  figures.add({
    name: 'daicho_event_loop_delay_seconds',
    help: 'Delay of the event loop since the previous scrape, by quantile (1 is the maximum)',
    labelNames: ['quantile'],
    collect() {
      this.set({ quantile: '0.5' }, delay.percentile(50) / NANOSECONDS)
      this.set({ quantile: '0.99' }, delay.percentile(99) / NANOSECONDS)
      this.set({ quantile: '1' }, delay.max / NANOSECONDS)
      delay.reset()
    },
  })
  figures.add({
    name: 'process_resident_memory_bytes',
    help: 'Memory of the process that is in RAM',
    labelNames: [],
    collect() {
      this.set(process.memoryUsage.rss())
    },
  })
  figures.add({
    name: 'process_cpu_seconds_total',
    help: 'Processor time that the process has used, user and system',
    labelNames: [],
    collect() {
      const { user, system } = process.cpuUsage()
      this.set((user + system) / MICROSECONDS)
    },
  })
  figures.add({
    name: 'process_uptime_seconds',
    help: 'Time since the process started',
    labelNames: [],
    collect() {
      this.set(process.uptime())
    },
  })
  return () => delay.disable()
}

import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { listenerUrl } from '../base/url.ts'
import { buildApp, type HttpAppOptions } from './app.ts'
import type { HttpApp, HttpComponent } from './component.ts'

/**
 * Maximum number of connections that the system completes before the node accepts them. Node's default of 511 is
 * exceeded if a thousand clients reconnect at once; the system then drops or resets connections.
 */
const BACKLOG = 4_096
/** Maximum milliseconds that `close` waits for pending requests. */
const DRAIN_MS = 8_000

export interface ListenOptions extends HttpAppOptions {
  /** The address to bind, e.g. `127.0.0.1`. */
  readonly host: string
  /** 0 selects any free port. */
  readonly port: number
}

export interface Listener {
  readonly name: string
  /** `http://<host>:<port>`; `<host>` is 127.0.0.1 if all addresses are bound. */
  readonly url: string
  /** Stops listening, waits up to DRAIN_MS for pending requests, then closes all connections. */
  close(): Promise<void>
}

/** Starts a listener for `component`. Errors: as for `net.Server.listen`, e.g. EADDRINUSE. */
export async function startListener(
  component: HttpComponent,
  options: ListenOptions,
): Promise<Listener> {
  const app = await buildApp(component, options)
  try {
    await app.listen({ host: options.host, port: options.port, backlog: BACKLOG })
  } catch (error) {
    await app.close()
    throw error
  }
  const url = listenerUrl(options.host, (app.server.address() as AddressInfo).port)
  options.logger.info({ component: component.name, url }, 'listening')
  return {
    name: component.name,
    url,
    close: () => closeWithinLimit(app),
  }
}

/**
 * Closes `app`: accepts no new connections, sends `Connection: close` with all further replies, waits for pending
 * requests up to DRAIN_MS, then closes all connections. `app.close()` alone would wait for keep-alive clients.
 */
async function closeWithinLimit(app: HttpApp): Promise<void> {
  const server: Server = app.server
  // `app.close` would first run the hooks of the component.
  server.close()
  for (const response of app.connections.pendingReplies()) {
    if (!response.headersSent) response.setHeader('connection', 'close')
  }
  const force = setTimeout(() => server.closeAllConnections(), DRAIN_MS)
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  try {
    await app.close()
  } finally {
    clearTimeout(force)
    clearInterval(idle)
  }
}

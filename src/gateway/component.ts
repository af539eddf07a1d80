import type { Clock } from '../base/clock.ts'
import type { HttpComponent } from '../http/index.ts'
import { takeStrictJson } from '../http/index.ts'
import type { Networks } from '../network/index.ts'
import type { NamespaceStyle } from './aliases.ts'
import type { Doors } from './callers.ts'
import { ALARMS, errorReply, statusOf } from './errors.ts'
import { EventSockets, type EventSocketsDeps } from './event-sockets.ts'
import { explorerRoutes } from './explorer.ts'
import { takeForms } from './forms.ts'
import { deploymentRoutes, networkRoutes } from './routes.ts'
import { GatewayService } from './service.ts'

/** Longest request body, bytes. */
const BODY_BYTES_MAX = 10 * 1024 * 1024
/** Longest time for a request to arrive. */
const REQUEST_TIMEOUT_MS = 30_000

/** Sockets: requests, and those that listen for events. */
const SOCKETS_MAX = 3_000

/** What the gateway's listener is made of. */
export interface GatewayComponentDeps extends Pick<EventSocketsDeps, 'everyHalfMinute'> {
  readonly networks: Networks
  /** The network at `/api`; null takes the first there is. */
  readonly defaultNetwork: string | null
  readonly doors: Doors
  /** Which names of types the explorer shows. */
  readonly namespaces: NamespaceStyle
  /** The id of the node whose ledger it is. */
  readonly serverId: number
  readonly clock: Clock
  readonly version: string
  /** A text that nobody can guess, for new identities. */
  readonly randomSecret: () => string
  /** Called when the listener has closed and no list is being read any more. */
  readonly close?: () => Promise<void>
}

/** Component N: business networks as REST, on its listener. */
export function gatewayComponent(deps: GatewayComponentDeps): HttpComponent {
  const { networks, defaultNetwork, doors, namespaces, serverId, version, randomSecret } = deps
  const service = new GatewayService(networks, defaultNetwork)
  const underWay = new Set<Promise<unknown>>()
  const { everyHalfMinute } = deps
  const sockets = new EventSockets({ service, doors, everyHalfMinute })
  return {
    name: 'gateway',
    defaultPort: 4130,
    limits: {
      bodyBytesMax: BODY_BYTES_MAX,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      socketsMax: SOCKETS_MAX,
    },
    sameOriginOnly: true,
    statusOf,
    alarms: ALARMS,
    refusalReply: errorReply,
    async register(app) {
      takeStrictJson(app)
      takeForms(app)
      app.addHook('preClose', async () => sockets.close())
      const startedMs = deps.clock.now()
      app.get('/', async (_request, reply) => reply.redirect('/explorer'))
      app.get('/status', async () => {
        const nowMs = deps.clock.now()
        return { started: new Date(startedMs).toISOString(), uptime: (nowMs - startedMs) / 1000 }
      })
      networkRoutes(app, { service, doors, serverId, underWay, version, randomSecret })
      const onRemoved = (name: string) => sockets.closeNetwork(name)
      await deploymentRoutes(app, { service, doors, onRemoved })
      explorerRoutes(app, service, namespaces)
    },
    async close() {
      // What the networks live on is not let go of under a list that is still being read.
      await Promise.allSettled(underWay)
      await deps.close?.()
    },
    upgrade: (request, socket, head) => sockets.upgrade(request, socket, head),
  }
}

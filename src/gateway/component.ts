import type { Clock } from '../base/clock.ts'
import { acceptStrictJson, type HttpComponent } from '../http/index.ts'
import type { Networks } from '../network/index.ts'
import { JsonBody } from './api/bodies.ts'
import { ALARMS, errorReply, gatewayStatuses, RETRIED } from './api/errors.ts'
import { EventSockets, type EventSocketsDeps } from './api/event-sockets.ts'
import { acceptUrlEncodedForms } from './api/forms.ts'
import {
  deploymentRoutes,
  explorerRoutes,
  type GatewayAccess,
  networkRoutes,
} from './api/routes.ts'
import { GatewayService, type NamespaceStyle } from './service.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024
const REQUEST_TIMEOUT_MS = 30_000

/** Maximum number of connections, including event subscribers. */
const SOCKETS_MAX = 3_000

export interface GatewayComponentDeps extends Pick<EventSocketsDeps, 'everyHalfMinute'> {
  readonly networks: Networks
  /** Name of the network at `/api`; null selects the first network. */
  readonly defaultNetwork: string | null
  readonly access: GatewayAccess
  /** How the explorer displays the names of types. */
  readonly namespaces: NamespaceStyle
  readonly serverId: number
  readonly clock: Clock
  readonly version: string
  /** Returns a secret for a new identity. */
  readonly randomSecret: () => string
  /** Called after the listener has closed and the last list has been read. */
  readonly close?: () => Promise<void>
}

/** The gateway (component N of the specification), which serves business networks as REST APIs. */
export function gatewayComponent(deps: GatewayComponentDeps): HttpComponent {
  const { networks, defaultNetwork, access, namespaces, serverId, version, randomSecret } = deps
  const service = new GatewayService(networks, defaultNetwork)
  const inProgress = new Set<Promise<unknown>>()
  const { everyHalfMinute } = deps
  const sockets = new EventSockets({ service, access, everyHalfMinute })
  return {
    name: 'gateway',
    limits: {
      bodyBytesMax: BODY_BYTES_MAX,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      socketsMax: SOCKETS_MAX,
    },
    sameOriginOnly: true,
    statusOf: gatewayStatuses,
    alarms: ALARMS,
    retried: RETRIED,
    refusalReply: errorReply,
    async register(app) {
      acceptStrictJson(app, JsonBody.read)
      acceptUrlEncodedForms(app)
      app.addHook('preClose', async () => sockets.close())
      const startedMs = deps.clock.now()
      app.get('/', async (_request, reply) => reply.redirect('/explorer'))
      app.get('/status', async () => {
        const nowMs = deps.clock.now()
        return { started: new Date(startedMs).toISOString(), uptime: (nowMs - startedMs) / 1000 }
      })
      networkRoutes(app, { service, access, serverId, inProgress, version, randomSecret })
      service.onRemoved((name) => sockets.closeNetwork(name))
      await deploymentRoutes(app, { service, access })
      explorerRoutes(app, service, namespaces)
    },
    async close() {
      // Waits first, because closing the networks would break lists that are still being read.
      await Promise.allSettled(inProgress)
      await deps.close?.()
    },
    upgrade: (request, socket, head) => sockets.upgrade(request, socket, head),
  }
}

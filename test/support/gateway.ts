import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import type { Author } from '../../src/base/author.ts'
import type { Clock } from '../../src/base/clock.ts'
import { gatewayComponent, type NamespaceStyle } from '../../src/gateway/index.ts'
import { startListener } from '../../src/http/index.ts'
import { openLedger } from '../../src/ledger/core.ts'
import type { LedgerService } from '../../src/ledger/index.ts'
import {
  defaultNetwork,
  type NetworkDefinition,
  Networks,
  requireDefinition,
} from '../../src/network/index.ts'
import { exchange, type Reply } from './exchange.ts'
import { HandClock } from './ledger-node.ts'

/** A gateway on a real socket, with a ledger of its own. */
export interface GatewayNode {
  readonly url: string
  readonly networks: Networks
  readonly ledger: LedgerService
  close(): Promise<void>
  /** Sends a request. A body is sent as JSON unless it is text or bytes. */
  send(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Reply>
}

/** Options of a test gateway. By default, it needs no key, has the default network, and keeps its data in memory. */
export interface GatewayOptions {
  readonly folder?: string | null
  readonly clock?: Clock
  /** Networks to deploy, in this order. Default: the default network. */
  readonly deploy?: readonly NetworkDefinition[]
  readonly apiKey?: string | null
  readonly findAccount?: (token: string) => Promise<Author | null>
  readonly namespaces?: NamespaceStyle
  readonly warn?: (message: string) => void
  readonly log?: (network: string, level: string, text: string) => void
  readonly deadlineMs?: number
  /** Receives a function that pings all clients that listen to events. */
  readonly onPing?: (tick: () => void) => void
}

/** Starts a gateway, which the caller closes. */
export async function startGateway(options: GatewayOptions = {}): Promise<GatewayNode> {
  const { folder = null, clock = new HandClock(), deploy, apiKey = null } = options
  const ledger = await openLedger({ folder, clock })
  const networks = await Networks.open({
    ledger: ledger.service,
    clock,
    version: '0.0.0',
    warn: options.warn ?? (() => {}),
    deadlineMs: options.deadlineMs ?? 5_000,
    log: options.log ?? (() => {}),
  })
  for (const definition of deploy ?? []) {
    if (networks.get(definition.name) === null) await networks.deploy(definition)
  }
  if (deploy === undefined && networks.get('mynetwork') === null) {
    await networks.ship(defaultNetwork())
  }
  let secrets = 0
  const component = gatewayComponent({
    networks,
    defaultNetwork: deploy?.[0]?.name ?? 'mynetwork',
    access: {
      ...{ apiKey, open: apiKey === null },
      ...(options.findAccount === undefined ? {} : { findAccount: options.findAccount }),
    },
    namespaces: options.namespaces ?? 'required',
    serverId: ledger.service.serverId,
    clock,
    version: '0.0.0',
    randomSecret: () => {
      secrets += 1
      return `secret-${secrets}`
    },
    everyHalfMinute: (tick) => {
      options.onPing?.(tick)
      return () => {}
    },
    close: async () => {
      await networks.close()
      await ledger.close()
    },
  })
  const listener = await startListener(component, {
    host: '127.0.0.1',
    port: 0,
    logger: pino({ level: 'silent' }),
    publicHosts: new Set(),
  })
  return {
    url: listener.url,
    networks,
    ledger: ledger.service,
    close: () => listener.close(),
    send: (method, path, body, headers = {}) =>
      exchange(listener.url + path, method, body, headers),
  }
}

/** Starts a gateway, which is closed after the test. */
export async function gateway(options: GatewayOptions = {}): Promise<GatewayNode> {
  const node = await startGateway(options)
  onTestFinished(() => node.close())
  return node
}

/** Returns a network with this model, these other files, and members for its package.json. */
export function networkOf(
  model: string,
  files: Readonly<Record<string, string>> = {},
  about: object = {},
): NetworkDefinition {
  const all = {
    'package.json': JSON.stringify({ name: 'test-network', version: '1.0.0', ...about }),
    'models/model.cto': model,
    ...files,
  }
  return requireDefinition({
    packed: null,
    files: new Map(Object.entries(all).map(([path, text]) => [path, Buffer.from(text)] as const)),
  })
}

import type { Clock } from '../../base/clock.ts'
import { gatewayComponent } from '../../gateway/index.ts'
import type { HttpComponent } from '../../http/index.ts'
import type { LedgerService } from '../../ledger/index.ts'
import {
  defaultNetwork,
  definitionOf,
  NetworkError,
  Networks,
  type NetworksDeps,
  readNetwork,
} from '../../network/index.ts'
import { newSecret } from '../commands/network-host.ts'
import { EXIT, Exit } from '../exit.ts'
import type { Settings } from '../settings.ts'

/** How often those who listen for events are asked whether they are there. */
const PING_MS = 30_000

/** What the gateway is made from. */
export interface GatewaySurroundings {
  readonly settings: Settings
  readonly loopback: boolean
  readonly host: string
  readonly clock: Clock
  readonly version: string
  readonly ledger: LedgerService
  readonly warn: (message: string) => void
  readonly log: NetworksDeps['log']
  readonly close: () => Promise<void>
}

/** The gateway, with the networks that the ledger records and those that the settings name. */
export async function gatewayOf(around: GatewaySurroundings): Promise<HttpComponent> {
  const { settings, clock, version, ledger, warn, log, close } = around
  const doors = doorsOf(around)
  const { PROCESSOR_DEADLINE_MS: deadlineMs } = settings
  const networks = await Networks.open({ ledger, clock, version, warn, deadlineMs, log })
  const first = await deployNamed(networks, settings.NETWORKS, warn)
  if (first === null) await shipDefault(networks, warn)
  const { NETWORK } = settings
  if (NETWORK !== null && networks.get(NETWORK) === null) {
    const known = networks.list().map(({ name }) => name)
    throw new Exit(
      EXIT.configuration,
      `NETWORK: there is no ${NETWORK}; there are ${known.join(', ')}`,
    )
  }
  return gatewayComponent({
    networks,
    defaultNetwork: NETWORK ?? first ?? shippedName(networks),
    doors,
    namespaces: settings.GATEWAY_NAMESPACES,
    serverId: ledger.serverId,
    clock,
    version,
    randomSecret: newSecret,
    everyHalfMinute: (tick) => {
      const timer = setInterval(tick, PING_MS).unref()
      return () => clearInterval(timer)
    },
    close: async () => {
      await networks.close()
      await close()
    },
  })
}

function doorsOf({ settings, loopback, host }: GatewaySurroundings) {
  const { GATEWAY_API_KEY: apiKey, GATEWAY_AUTHENTICATION: authenticated } = settings
  if (authenticated && apiKey === null) {
    const message = 'identities are issued with the key of the gateway: set GATEWAY_API_KEY too'
    throw new Exit(EXIT.configuration, message)
  }
  const open = apiKey === null
  if (open && !loopback && !settings.GATEWAY_OPEN) {
    const message = `an open gateway is for loopback only: set GATEWAY_API_KEY to listen on ${host}, or GATEWAY_OPEN=1`
    throw new Exit(EXIT.configuration, message)
  }
  return { apiKey, open }
}

/** Deploys what is not deployed yet; gives the name of the first, or null when none are named. */
async function deployNamed(
  networks: Networks,
  paths: readonly string[],
  warn: (message: string) => void,
): Promise<string | null> {
  let first: string | null = null
  for (const path of paths) {
    try {
      const definition = definitionOf(readNetwork(path))
      if (networks.removed().includes(definition.name)) {
        warn(`NETWORKS: ${path}: the network ${definition.name} was removed and is not served`)
        continue
      }
      first ??= definition.name
      if (networks.get(definition.name) === null) await networks.deploy(definition)
    } catch (error) {
      if (!(error instanceof NetworkError)) throw error
      throw new Exit(EXIT.configuration, `NETWORKS: ${path}: ${error.message}`, { cause: error })
    }
  }
  return first
}

/** The name of the network that comes with daicho. */
const SHIPPED = 'mynetwork'

function shippedName(networks: Networks): string | null {
  return networks.get(SHIPPED) === null ? null : SHIPPED
}

async function shipDefault(networks: Networks, warn: (message: string) => void): Promise<void> {
  if (networks.get(SHIPPED) !== null || networks.removed().includes(SHIPPED)) return
  try {
    await networks.ship(defaultNetwork())
  } catch (error) {
    if (!(error instanceof NetworkError) || error.code !== 'NETWORK_NAME_TAKEN') throw error
    warn(`the network that comes with daicho is not served: ${error.message}`)
  }
}

import { randomBytes } from 'node:crypto'
import type { Author } from '../../base/author.ts'
import { systemClock } from '../../base/clock.ts'
import { type GatewayComponentDeps, gatewayComponent } from '../../gateway/index.ts'
import type { HttpComponent } from '../../http/index.ts'
import type { LedgerService } from '../../ledger/index.ts'
import {
  defaultNetwork,
  type NetworkDefinition,
  NetworkError,
  Networks,
  readNetwork,
  requireDefinition,
} from '../../network/index.ts'
import type { TokenService } from '../../tokens/index.ts'
import { EXIT, Exit } from '../exit.ts'
import type { ComponentContext } from './context.ts'

/** Interval of the pings that detect dead event sockets. */
const PING_MS = 30_000
const SECRET_BYTES = 32
/** The network that is bundled with daicho. */
const SHIPPED = 'mynetwork'

/** Creates the gateway with the networks that the ledger contains and the networks of the setting NETWORKS. */
export async function createGateway(
  context: ComponentContext,
  ledger: LedgerService,
  openTokens: () => Promise<TokenService>,
): Promise<HttpComponent> {
  const { settings, clock, version, logger, onClose } = context
  const tokens = settings.OIDC_ISSUERS.length === 0 ? null : await openTokens()
  const findAccount = tokens === null ? {} : { findAccount: tokens.findAccount.bind(tokens) }
  const access = { ...requireAccess(context), ...findAccount }
  const warn = (message: string) => logger.warn(message)
  const networks = await Networks.open({
    ...{ ledger, clock, version, warn, deadlineMs: settings.PROCESSOR_DEADLINE_MS },
    log: (network, level, text) =>
      logger.info({ component: 'gateway', network, console: level, text }, 'processor'),
  })
  onClose(() => networks.close())
  const first = await deployNamed(networks, settings.NETWORKS, warn)
  if (first === null) await shipDefault(networks, warn)
  const { NETWORK } = settings
  if (NETWORK !== null && networks.get(NETWORK) === null) {
    const known = networks.list().map(({ name }) => name)
    const message = `NETWORK: there is no network ${NETWORK}; choose one of ${known.join(', ')}`
    throw new Exit(EXIT.configuration, message)
  }
  const shipped = networks.get(SHIPPED) === null ? null : SHIPPED
  return gatewayComponent({
    ...{ networks, access, clock, version, randomSecret, everyHalfMinute },
    defaultNetwork: NETWORK ?? first ?? shipped,
    namespaces: settings.GATEWAY_NAMESPACES,
    serverId: ledger.serverId,
  })
}

/** Returns a gateway of `networks` for a command of this process, without access control. `by`: the author, or null. */
export function localGateway(
  networks: Networks,
  {
    serverId,
    version,
    by,
  }: Pick<GatewayComponentDeps, 'serverId' | 'version'> & { by: Author | null },
): HttpComponent {
  const access = { apiKey: null, open: true, ...(by === null ? {} : { by }) }
  return gatewayComponent({
    ...{ networks, serverId, version, clock: systemClock, randomSecret, everyHalfMinute },
    ...{ defaultNetwork: null, access, namespaces: 'required' },
  })
}

const randomSecret = () => randomBytes(SECRET_BYTES).toString('base64url')

function everyHalfMinute(tick: () => void): () => void {
  const timer = setInterval(tick, PING_MS).unref()
  return () => clearInterval(timer)
}

/** Returns the access rules from the settings. Errors: Exit (configuration) for an insecure combination. */
function requireAccess({ settings, publicAddress, logger, notify }: ComponentContext) {
  const { GATEWAY_API_KEY: apiKey, GATEWAY_AUTHENTICATION: isAuthenticated } = settings
  if (isAuthenticated && apiKey === null) {
    const message =
      'GATEWAY_AUTHENTICATION=1 needs GATEWAY_API_KEY, the key with which identities are issued'
    throw new Exit(EXIT.configuration, message)
  }
  const open = apiKey === null
  if (open && publicAddress !== null && !settings.GATEWAY_OPEN) {
    const message = `a gateway without a key is for this computer only: to be reachable at ${publicAddress}, set GATEWAY_API_KEY, or GATEWAY_OPEN=1`
    throw new Exit(EXIT.configuration, message)
  }
  if (open && publicAddress !== null) {
    const warning = `GATEWAY_OPEN=1 on ${publicAddress}: anyone who reaches the port can submit transactions`
    notify(warning)
    logger.warn(warning)
  }
  return { apiKey, open }
}

/** Deploys the networks at `paths` that are not deployed yet. Returns the first name that was not removed, or null. */
async function deployNamed(
  networks: Networks,
  paths: readonly string[],
  warn: (message: string) => void,
): Promise<string | null> {
  let first: string | null = null
  for (const path of paths) {
    try {
      const definition = requireDefinition(readNetwork(path))
      if (networks.removed().includes(definition.name)) {
        warn(`NETWORKS: ${path}: the network ${definition.name} was removed and is not served`)
        continue
      }
      first ??= definition.name
      if (networks.get(definition.name) === null) await deployOnce(networks, definition)
    } catch (error) {
      if (!(error instanceof NetworkError)) throw error
      throw new Exit(EXIT.configuration, `NETWORKS: ${path}: ${error.message}`, { cause: error })
    }
  }
  return first
}

/** Deploys a network unless another process that starts at the same time deploys it first. */
async function deployOnce(networks: Networks, definition: NetworkDefinition): Promise<void> {
  try {
    await networks.deploy(definition)
  } catch (error) {
    if (!(error instanceof NetworkError) || error.code !== 'NETWORK_EXISTS') throw error
    if (networks.get(definition.name) === null) throw error
  }
}

async function shipDefault(networks: Networks, warn: (message: string) => void): Promise<void> {
  if (networks.get(SHIPPED) !== null || networks.removed().includes(SHIPPED)) return
  try {
    await networks.ship(defaultNetwork())
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error
    // Another process has recorded the network since this process has read the networks.
    if (error.code === 'NETWORK_EXISTS') return
    if (error.code !== 'NETWORK_NAME_TAKEN') throw error
    warn(`the network that comes with daicho is not served: ${error.message}`)
  }
}

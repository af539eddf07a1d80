import { isIP } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { type Clock, monotonicClock } from '../../base/clock.ts'
import type { Credentials, HttpApp, HttpComponent } from '../../http/index.ts'
import type { OpenLedger } from '../../ledger/core.ts'
import type { TokenService } from '../../tokens/index.ts'
import { EXIT, Exit } from '../exit.ts'
import type { Settings } from '../settings.ts'

/** What components are made from. */
export interface Surroundings {
  readonly settings: Settings
  /** The address that all listeners bind. */
  readonly host: string
  readonly clock: Clock
  readonly logger: FastifyBaseLogger
  readonly version: string
  /** The ledger of this process: opened by the first component that stands on it. */
  ledger: OpenLedger | null
  /** The tokens of this process: made by the first component that takes them, shared by all. */
  tokens: TokenService | null
  /** Lines for the person at the terminal, such as preset credentials; never logged. */
  readonly notices: string[]
}

/**
 * How each component is made, in the order in which they start; a key is the name in `--only`. What it is
 * made of is loaded when it is: a start does not wait for components that were not asked for.
 */
export const COMPONENTS = {
  ledger: ledger,
  converter: converter,
  rates: rates,
  samples: samples,
  gateway: gateway,
} as const satisfies Record<string, (around: Surroundings) => Promise<HttpComponent>>

/** A component that exists. */
export type ComponentName = keyof typeof COMPONENTS

/** Credentials for trying daicho out on one machine; never used on an address others can reach. */
const PRESET: Credentials = { name: 'admin', password: 'daicho' }

async function ledger(around: Surroundings): Promise<HttpComponent> {
  const { dashboardFolder } = await import('../../dashboard/index.ts')
  const { readPageFiles } = await import('../../http/index.ts')
  const { ledgerComponent } = await import('../../ledger/index.ts')
  const { settings, clock, version, logger } = around
  const credentials = dashboardCredentials(around)
  const tokens = settings.TOKENS === 'required' ? await tokensOf(around) : null
  const opened = await ledgerOf(around)
  if (tokens !== null && settings.SYSTEM_FOLDER === null && settings.SECRET === null) {
    logger.warn('TOKENS=required without SYSTEM_FOLDER or SECRET: only POST /session makes tokens')
  }
  return ledgerComponent({
    ledger: opened.service,
    credentials,
    page: readPageFiles(dashboardFolder),
    tokens,
    clock,
    monotonic: monotonicClock,
    logger: logger.child({ component: 'ledger' }),
    version,
    close: () => opened.close(),
  })
}

/** The one ledger of this process. Errors: StoreError, LedgerError. */
async function ledgerOf(around: Surroundings): Promise<OpenLedger> {
  if (around.ledger !== null) return around.ledger
  const { openLedger, peerOfText } = await import('../../ledger/core.ts')
  const { ownNetworkDatabases } = await import('../../network/ownership.ts')
  const { settings, clock } = around
  const opened = await openLedger({
    folder: settings.SYSTEM_FOLDER,
    difficulty: settings.LEDGER_DIFFICULTY,
    attachmentBytesMax: settings.ATTACHMENT_BYTES_MAX,
    peers: {
      fixed: settings.PEERS.map(peerOfText),
      allowPrivate: settings.PEERS_ALLOW_PRIVATE,
      intervalMs: settings.PEERS_INTERVAL_MS,
    },
    clock,
  })
  around.ledger = opened
  // Also where the gateway does not run: nobody writes past the rules of a network.
  await ownNetworkDatabases(opened.service)
  if (settings.SYSTEM_FOLDER === null) {
    const warning = 'SYSTEM_FOLDER is not set: all data is lost when this process ends'
    around.notices.push(warning)
    around.logger.warn(warning)
  }
  return opened
}

async function gateway(around: Surroundings): Promise<HttpComponent> {
  const { gatewayOf } = await import('./gateway.ts')
  const { settings, host, clock, version, logger } = around
  const isShared = around.ledger !== null
  const opened = await ledgerOf(around)
  return gatewayOf({
    settings,
    host,
    loopback: isLoopback(host),
    clock,
    version,
    ledger: opened.service,
    warn: (message) => logger.warn(message),
    log: (network, level, text) =>
      logger.info({ component: 'gateway', network, console: level, text }, 'processor'),
    // The ledger's own listener closes it, after this one.
    close: isShared ? async () => {} : () => opened.close(),
  })
}

async function samples(around: Surroundings): Promise<HttpComponent> {
  const { mountGuardedPath, mountPresenceFilter, openPairs, PRESET_PAIR } = await import(
    '../../guarded-path/index.ts'
  )
  const { openUserBook, PRESET_USER, sampleApiComponent } = await import(
    '../../sample-api/index.ts'
  )
  const { settings, host, version, logger, notices } = around
  const loopback = isLoopback(host)
  const users = await openUserBook({
    file: settings.USERS_FILE,
    folder: settings.SYSTEM_FOLDER,
    loopback,
  })
  const pairs = await openPairs({ file: settings.HELLO_FILE, loopback })
  if (users.isPreset()) {
    const { name, password } = PRESET_USER
    notices.push(`Sample API: name "${name}", password "${password}" (preset)`)
  }
  if (settings.HELLO_FILE === null) {
    const { id, name, password } = PRESET_PAIR
    notices.push(`/hello?id=${id}: name "${name}", password "${password}" (preset)`)
  }
  const filtered = settings.PRESENCE_FILTER === '1'
  if (filtered) logger.warn('PRESENCE_FILTER looks for a header, not at it: it keeps nobody out')
  return sampleApiComponent({
    monotonic: monotonicClock,
    tokens: await tokensOf(around),
    users,
    logger: logger.child({ component: 'samples' }),
    version,
    also: [
      ...(filtered ? [mountPresenceFilter] : []),
      (app: HttpApp) => mountGuardedPath(app, pairs),
    ],
  })
}

/** The one token service of this process. Errors: TokenError, KeptError. */
async function tokensOf(around: Surroundings): Promise<TokenService> {
  const { openTokens } = await import('../../tokens/index.ts')
  const { clock, settings } = around
  around.tokens ??= await openTokens({
    clock,
    folder: settings.SYSTEM_FOLDER,
    secret: settings.SECRET,
  })
  return around.tokens
}

async function rates(around: Surroundings): Promise<HttpComponent> {
  const { rateFeedComponent } = await import('../../rate-feed/index.ts')
  const { rateFeedDeps } = await import('./rate-feed-deps.ts')
  const { ledgerOfRates } = await import('./rate-ledger.ts')
  const { settings, clock, logger, version } = around
  if (settings.RATES_RECORD && around.ledger === null) {
    throw new Exit(EXIT.configuration, 'RATES_RECORD=1 needs the ledger in the same process')
  }
  return rateFeedComponent({
    ...rateFeedDeps(settings, version, clock),
    log: logger.child({ component: 'rates' }),
    ledger:
      settings.RATES_RECORD && around.ledger !== null ? ledgerOfRates(around.ledger.service) : null,
    version,
  })
}

async function converter({ settings, version }: Surroundings): Promise<HttpComponent> {
  const { converterComponent } = await import('../../converter/index.ts')
  const defaults = { px: settings.DEFAULT_PX, width: settings.DEFAULT_WIDTH }
  return converterComponent({ version, defaults })
}

/** Errors: Exit (configuration) for half a pair, or for none on an address others can reach. */
function dashboardCredentials({ settings, host, notices }: Surroundings): Credentials {
  const { BASIC_USERNAME: name, BASIC_PASSWORD: password } = settings
  if (name !== null && password !== null) return { name, password }
  if (name !== null || password !== null) {
    throw new Exit(EXIT.configuration, 'set both BASIC_USERNAME and BASIC_PASSWORD, or neither')
  }
  if (!isLoopback(host)) {
    throw new Exit(
      EXIT.configuration,
      `preset credentials are for loopback only: set BASIC_USERNAME and BASIC_PASSWORD to listen on ${host}`,
    )
  }
  notices.push(`Dashboard: name "${PRESET.name}", password "${PRESET.password}" (preset)`)
  return PRESET
}

/** Whether only this machine can reach `host`. */
function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

import { isIP } from 'node:net'
import { InvalidArgumentError } from 'commander'
import type { FastifyBaseLogger } from 'fastify'
import { monotonicClock } from '../../base/clock.ts'
import type { Credentials, HttpApp, HttpComponent } from '../../http/index.ts'
import type { FinishedVerification } from '../../ledger/core.ts'
import type { LedgerService } from '../../ledger/index.ts'
import type { TokenService } from '../../tokens/index.ts'
import { EXIT, Exit } from '../exit.ts'
import type { ComponentContext } from './context.ts'

/** All components in start order. `--only` uses these names. */
export const COMPONENT_NAMES = ['ledger', 'converter', 'rates', 'samples', 'gateway'] as const
export type ComponentName = (typeof COMPONENT_NAMES)[number]

/** Parses the value of `--only`. Errors: InvalidArgumentError. */
export function parseComponentNames(text: string): ComponentName[] {
  return text.split(',').map((part) => {
    const name = COMPONENT_NAMES.find((known) => known === part.trim())
    if (name !== undefined) return name
    throw new InvalidArgumentError(`the components are ${COMPONENT_NAMES.join(', ')}.`)
  })
}

export type AppOptions = Pick<
  ComponentContext,
  'settings' | 'host' | 'clock' | 'logger' | 'version'
> & { readonly names: readonly ComponentName[] }

/** The components of one process. */
export interface ComposedApp {
  readonly components: ReadonlyMap<ComponentName, HttpComponent>
  /** Lines to print on the terminal. */
  readonly notices: readonly string[]
  /** Closes the shared services. Close the listeners first. */
  close(): Promise<void>
}

/** Preset credentials for trying daicho on one computer. Used only if others cannot reach the node. */
const PRESET: Credentials = { name: 'admin', password: 'daicho' }

/**
 * Creates the components of `serve` and the services that they share. Loads only the code of the components in `names`,
 * and opens a service when the first component needs it. Errors: Exit (configuration), CodedError. After an error, all
 * opened services are closed.
 */
export async function composeApp({ names, ...options }: AppOptions): Promise<ComposedApp> {
  const notices: string[] = []
  const closers: (() => Promise<void>)[] = []
  const close = async () => {
    for (const closeService of closers.splice(0).toReversed()) await closeService()
  }
  const isLoopback = isLoopbackHost(options.host)
  const { PUBLIC_HOSTS } = options.settings
  // A node with public names is behind a proxy, through which others reach its loopback address.
  const publicNames = PUBLIC_HOSTS.length > 0 ? PUBLIC_HOSTS.join(', ') : null
  const create = creators(names, {
    ...options,
    isLoopback,
    publicAddress: isLoopback ? publicNames : options.host,
    notify: (line) => notices.push(line),
    onClose: (closeService) => closers.push(closeService),
  })
  try {
    const components = new Map<ComponentName, HttpComponent>()
    for (const name of names) components.set(name, await create[name]())
    return { components, notices, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Returns the functions that create each component. They share the ledger and the tokens. */
function creators(
  names: readonly ComponentName[],
  context: ComponentContext,
): Record<ComponentName, () => Promise<HttpComponent>> {
  const { settings, version } = context
  const ledger = openOnce(() => openNodeLedger(context))
  const tokens = openOnce(async () => {
    const { openIssuers, openNodeTokens } = await import('./tokens.ts')
    if (settings.STORE !== null && settings.SECRET === null) {
      context.logger.warn(
        'STORE is set without SECRET: a token is accepted only by the process that issued the token',
      )
    }
    const { clock, logger } = context
    const issuers = await openIssuers(settings, clock, (message) => logger.warn(message))
    const opened = await openNodeTokens(settings, settings.SYSTEM_FOLDER, clock, issuers)
    context.onClose(opened.close)
    return opened.tokens
  })
  return {
    ledger: async () => {
      const credentials = dashboardCredentials(context)
      // The ledger is opened before the tokens, because opening the ledger creates the PostgreSQL tables of both.
      const service = await ledger()
      const required = settings.TOKENS === 'required' ? await tokens() : null
      return createLedger(context, credentials, required, service)
    },
    converter: async () => {
      const { converterComponent } = await import('../../converter/index.ts')
      const defaults = { px: settings.DEFAULT_PX, width: settings.DEFAULT_WIDTH }
      return converterComponent({ version, defaults })
    },
    rates: async () => {
      const { createRates } = await import('./rates.ts')
      if (!settings.RATES_RECORD) return createRates(context, null)
      if (names.includes('ledger') || names.includes('gateway')) {
        return createRates(context, await ledger())
      }
      const message = 'RATES_RECORD=1 needs the ledger in the same process: add ledger to --only'
      throw new Exit(EXIT.configuration, message)
    },
    samples: async () => createSamples(context, await tokens()),
    gateway: async () => {
      const { createGateway } = await import('./gateway.ts')
      return createGateway(context, await ledger(), tokens)
    },
  }
}

/** Returns a function that calls `open` at its first call, and then always returns the same service. */
function openOnce<Service>(open: () => Promise<Service>): () => Promise<Service> {
  let opened: Promise<Service> | null = null
  return () => {
    opened ??= open()
    return opened
  }
}

/** Opens the ledger according to the settings, and closes it with the app. Errors: StoreError, LedgerError. */
async function openNodeLedger(context: ComponentContext): Promise<LedgerService> {
  const { openLedger, parsePeer, parseVerifierKeys, parseWitness } = await import(
    '../../ledger/core.ts'
  )
  const { settings, clock, logger, onClose } = context
  const ledger = await openLedger({
    folder: settings.SYSTEM_FOLDER,
    store: settings.STORE,
    attachmentBytesMax: settings.ATTACHMENT_BYTES_MAX,
    peers: {
      fixed: settings.PEERS.map(parsePeer),
      allowPrivate: settings.PEERS_ALLOW_PRIVATE,
      intervalMs: settings.PEERS_INTERVAL_MS,
    },
    witnesses: {
      witnesses: settings.WITNESSES.map(parseWitness),
      allowPrivate: settings.PEERS_ALLOW_PRIVATE,
      report: (message) => logger.warn(message),
    },
    witnessOf: parseVerifierKeys(settings.WITNESS_OF),
    verification:
      settings.VERIFY_EVERY === null
        ? null
        : {
            everyMs: settings.VERIFY_EVERY,
            report: (state) => reportVerification(state, logger),
          },
    clock,
    authorRequired: settings.TOKENS === 'required',
  })
  onClose(() => ledger.close())
  const location = settings.STORE ?? settings.SYSTEM_FOLDER
  if (location !== null) {
    const { storeWarning } = await import('../../storage/index.ts')
    const warning = await storeWarning(location)
    if (warning !== null) logger.warn(warning)
  }
  if (settings.SYSTEM_FOLDER === null) {
    logger.warn('SYSTEM_FOLDER is not set: all data is lost when this process ends')
  } else if ((await ledger.service.read.chainSize()).blocks === 0) {
    // The folder of an unmounted disk looks like the folder of a new node.
    const message = 'the chain is empty; if this node had data, stop it and check SYSTEM_FOLDER'
    logger.warn({ folder: settings.SYSTEM_FOLDER }, message)
  }
  return ledger.service
}

/** Logs a finished verification. Its time is logged as `finished`, because each log line has its own `time`. */
export function reportVerification(state: FinishedVerification, logger: FastifyBaseLogger): void {
  const { result, time: finished, ...others } = state
  const fields = { finished, ...others }
  if (result === 'passed') logger.info(fields, 'verification passed')
  else if (result === 'failed') logger.error(fields, 'verification failed')
  else logger.warn(fields, 'verification not finished')
}

async function createLedger(
  { settings, clock, logger, version, publicAddress, notify }: ComponentContext,
  credentials: Credentials,
  tokens: TokenService | null,
  ledger: LedgerService,
): Promise<HttpComponent> {
  const { dashboardFolder } = await import('../../dashboard/index.ts')
  const { readPageFiles } = await import('../../http/index.ts')
  const { ledgerComponent } = await import('../../ledger/index.ts')
  if (tokens !== null && settings.SYSTEM_FOLDER === null && settings.SECRET === null) {
    logger.warn(
      'TOKENS=required without SYSTEM_FOLDER or SECRET: only POST /session creates tokens',
    )
  }
  if (tokens === null && settings.OIDC_ISSUERS.length > 0)
    logger.warn('OIDC_ISSUERS is set, but TOKENS is off: the ledger asks for no tokens')
  if (tokens === null && publicAddress !== null) {
    const warning = `TOKENS is off on ${publicAddress}: anyone who reaches the port can read and change all data`
    notify(warning)
    logger.warn(warning)
  }
  const { OIDC_CLIENT_ID: clientId, OIDC_SIGN_IN_PARAMETERS: parameters } = settings
  if (clientId !== null && (tokens === null || settings.OIDC_ISSUERS.length === 0)) {
    const message = 'OIDC_CLIENT_ID needs OIDC_ISSUERS and TOKENS=required'
    throw new Exit(EXIT.configuration, message)
  }
  const find = () => tokens?.findSignInOffer() ?? null
  return ledgerComponent({
    signIn: clientId === null ? null : { clientId, parameters, find },
    ...{ ledger, credentials, tokens, clock, version, monotonic: monotonicClock },
    page: readPageFiles(dashboardFolder),
    logger: logger.child({ component: 'ledger' }),
  })
}

async function createSamples(
  { settings, isLoopback, logger, version, notify }: ComponentContext,
  tokens: TokenService,
): Promise<HttpComponent> {
  const guardedPath = await import('../../guarded-path/index.ts')
  const sampleApi = await import('../../sample-api/index.ts')
  const { USERS_FILE, HELLO_FILE, SYSTEM_FOLDER: folder } = settings
  const users = await sampleApi.openUserDirectory({ file: USERS_FILE, folder, isLoopback })
  const pairs = await guardedPath.openPairs({ file: HELLO_FILE, isLoopback })
  if (users.isPreset()) notify(`Sample API: ${presetText(sampleApi.PRESET_USER)}`)
  if (HELLO_FILE === null) {
    notify(`/hello?id=${guardedPath.PRESET_PAIR.id}: ${presetText(guardedPath.PRESET_PAIR)}`)
  }
  const isFiltered = settings.PRESENCE_FILTER === '1'
  if (isFiltered)
    logger.warn(
      'PRESENCE_FILTER checks only that an Authorization header exists: it protects nothing',
    )
  return sampleApi.sampleApiComponent({
    ...{ tokens, users, version, monotonic: monotonicClock },
    logger: logger.child({ component: 'samples' }),
    mountFirst: async (app: HttpApp) => {
      if (isFiltered) guardedPath.mountPresenceFilter(app)
      await guardedPath.mountGuardedPath(app, pairs, monotonicClock)
    },
  })
}

/**
 * Returns BASIC_USERNAME and BASIC_PASSWORD, or the preset credentials if only this computer reaches the node. Errors:
 * Exit (configuration) if only one of the variables is set, or if neither is set and others reach the node.
 */
function dashboardCredentials(context: ComponentContext): Credentials {
  const { settings, publicAddress, notify } = context
  const { BASIC_USERNAME: name, BASIC_PASSWORD: password } = settings
  if (name !== null && password !== null) return { name, password }
  if (name !== null || password !== null) {
    throw new Exit(EXIT.configuration, 'set both BASIC_USERNAME and BASIC_PASSWORD, or neither')
  }
  if (publicAddress !== null) {
    throw new Exit(
      EXIT.configuration,
      `preset credentials are for this computer only: set BASIC_USERNAME and BASIC_PASSWORD to be reachable at ${publicAddress}`,
    )
  }
  notify(`Dashboard login: ${presetText(PRESET)}`)
  return PRESET
}

function presetText({ name, password }: Credentials): string {
  return `name "${name}", password "${password}" (preset)`
}

function isLoopbackHost(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

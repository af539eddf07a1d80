import { Command, InvalidArgumentError, Option } from 'commander'
import { pino } from 'pino'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { type HttpComponent, type Listener, startListener } from '../../http/index.ts'
import { makeFolder } from '../../storage/index.ts'
import { COMPONENTS, type ComponentName, type Surroundings } from '../composition/components.ts'
import { EXIT, Exit, exitOfSystem } from '../exit.ts'
import { readSettings, type Settings } from '../settings.ts'
import { VERSION } from '../version.ts'
import { stopSignalMeans } from './stop-signals.ts'

/** After a signal everything must be closed within this time. */
const SHUTDOWN_MS = 10_000

const NAMES = Object.keys(COMPONENTS) as ComponentName[]

/** The flag that sets each component's port. */
const PORT_FLAG: Record<ComponentName, string> = {
  ledger: 'port',
  rates: 'rates-port',
  samples: 'sample-port',
  converter: 'converter-port',
  gateway: 'gateway-port',
}

/** `daicho serve`. */
export function serveCommand(): Command {
  const command = new Command('serve')
    .addOption(
      new Option('--only <names>', `start only these, with commas: ${NAMES.join(',')}`).argParser(
        parseNames,
      ),
    )
    .option('--host <address>', 'address to listen on (HOST, else 127.0.0.1)')
    .option('--json', 'print the addresses as one line of JSON')
    .addOption(
      new Option('-n, --namespaces <when>', 'in the explorer (GATEWAY_NAMESPACES)').choices([
        'always',
        'never',
        'required',
      ]),
    )
    .option('-y, --apikey <key>', 'key of the gateway; better given as GATEWAY_API_KEY')
    .option('-a, --authentication', 'identities for participants (GATEWAY_AUTHENTICATION=1)')
  for (const name of NAMES) {
    const flag = PORT_FLAG[name]
    command.addOption(
      new Option(`--${flag} <number>`, `port of ${name}; 0 takes any free one`).argParser(
        parsePort,
      ),
    )
  }
  return command.action(serve)
}

interface ServeFlags {
  readonly only?: readonly ComponentName[]
  readonly host?: string
  readonly json?: boolean
  readonly namespaces?: Settings['GATEWAY_NAMESPACES']
  readonly apikey?: string
  readonly authentication?: boolean
  readonly [portFlag: string]: unknown
}

async function serve(flags: ServeFlags): Promise<void> {
  const settings = withFlags(readSettings(process.env), flags)
  const logger = pino(
    { level: settings.LOG_LEVEL, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: true }),
  )
  const host = flags.host ?? settings.HOST
  const around: Surroundings = {
    settings,
    host,
    clock: systemClock,
    logger,
    version: VERSION,
    ledger: null,
    tokens: null,
    notices: [],
  }
  const listeners: Listener[] = []
  const publicHosts = new Set(settings.PUBLIC_HOSTS.map((name) => name.toLowerCase()))
  try {
    // All components keep their files there.
    if (settings.SYSTEM_FOLDER !== null) makeFolder(settings.SYSTEM_FOLDER)
    for (const name of NAMES.filter((name) => flags.only?.includes(name) ?? true)) {
      const component = await COMPONENTS[name](around)
      const port = portOf(name, component, flags, settings.PORT)
      listeners.push(await startListener(component, { host, port, logger, publicHosts }))
    }
  } catch (error) {
    await closeAll(listeners)
    throw startFailure(error, host)
  }
  announce(listeners, around, flags.json === true)
  closeOnSignal(listeners, logger)
}

/** What flags say goes before what the environment says. */
function withFlags(settings: Settings, flags: ServeFlags): Settings {
  return {
    ...settings,
    GATEWAY_NAMESPACES: flags.namespaces ?? settings.GATEWAY_NAMESPACES,
    GATEWAY_API_KEY: flags.apikey ?? settings.GATEWAY_API_KEY,
    GATEWAY_AUTHENTICATION: flags.authentication ?? settings.GATEWAY_AUTHENTICATION,
  }
}

function portOf(
  name: ComponentName,
  component: HttpComponent,
  flags: ServeFlags,
  ledgerPort: number,
): number {
  const flag = flags[camelCase(PORT_FLAG[name])]
  if (typeof flag === 'number') return flag
  return name === 'ledger' ? ledgerPort : component.defaultPort
}

function announce(listeners: readonly Listener[], around: Surroundings, json: boolean): void {
  if (json) {
    const urls = Object.fromEntries(listeners.map(({ name, url }) => [name, url]))
    process.stdout.write(`${JSON.stringify(urls)}\n`)
  } else {
    process.stdout.write(listeners.map(({ name, url }) => `${name} ${url}\n`).join(''))
  }
  // Plain text for a person; where logs are collected, preset passwords do not belong.
  if (process.stderr.isTTY) {
    process.stderr.write(`\n${around.notices.map((line) => `  ${line}\n`).join('')}`)
    process.stderr.write('  Press Ctrl-C to stop.\n\n')
  }
}

function closeOnSignal(listeners: readonly Listener[], logger: Surroundings['logger']): void {
  let firstMs: number | null = null
  const close = (signal: string) => {
    const nowMs = performance.now()
    const meaning = stopSignalMeans(firstMs === null ? null : nowMs - firstMs)
    if (meaning === 'end at once') process.exit(EXIT.finding)
    if (meaning === 'nothing') return
    firstMs = nowMs
    logger.info({ signal }, 'closing')
    setTimeout(() => {
      logger.error('not everything could be closed in time')
      process.exit(EXIT.finding)
    }, SHUTDOWN_MS).unref()
    closeAll(listeners).then(
      () => process.exit(EXIT.right),
      (error: unknown) => {
        logger.error(error, 'closing failed')
        process.exit(EXIT.finding)
      },
    )
  }
  process.on('SIGINT', close)
  process.on('SIGTERM', close)
}

/** Last started, first closed: what stands on the ledger goes before it. */
async function closeAll(listeners: readonly Listener[]): Promise<void> {
  for (const listener of listeners.toReversed()) await listener.close()
}

/** What to say when a component cannot start. */
function startFailure(error: unknown, host: string): unknown {
  if (error instanceof CodedError) {
    // Every folder is the one that this variable names.
    const isOfPeers = error.code === 'PEER_INVALID' || error.code === 'PEERS_TOO_MANY'
    const isOfFolder = /^(FOLDER|STORE)_/.test(String(error.code))
    const where = isOfFolder ? 'SYSTEM_FOLDER: ' : isOfPeers ? 'PEERS: ' : ''
    return new Exit(EXIT.configuration, `${where}${error.message}`, { cause: error })
  }
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return error
  if (error.syscall === 'getaddrinfo' || error.code === 'EADDRNOTAVAIL') {
    const message = `HOST: ${host} is no address of this machine`
    return new Exit(EXIT.configuration, message, { cause: error })
  }
  // Whatever else the system refuses a start is a file or a folder of the node.
  if (error.syscall !== 'listen') return exitOfSystem(error, EXIT.configuration)
  return new Exit(EXIT.configuration, `cannot listen: ${error.message}`, { cause: error })
}

function parseNames(text: string): ComponentName[] {
  return text.split(',').map((part) => {
    const name = NAMES.find((known) => known === part.trim())
    if (name === undefined) throw new InvalidArgumentError(`known are: ${NAMES.join(', ')}.`)
    return name
  })
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(port <= 65_535)) throw new InvalidArgumentError('a port is an integer from 0 to 65535.')
  return port
}

function camelCase(flag: string): string {
  return flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
}

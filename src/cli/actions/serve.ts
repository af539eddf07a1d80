import { type Logger, pino } from 'pino'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { Denials, type Listener, ReplyBudget, startListener } from '../../http/index.ts'
import { requireFolder } from '../../storage/index.ts'
import {
  COMPONENT_NAMES,
  type ComponentName,
  type ComposedApp,
  composeApp,
} from '../composition/components.ts'
import { choosePort, listenFailure, requireFreePorts } from '../composition/ports.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, Exit, findSystemExit } from '../exit.ts'
import { findSettingName } from '../node/node-folder.ts'
import { bannerText, HeldLog } from '../output/banner.ts'
import { VERSION } from '../version.ts'

/** Time limit for closing everything after a signal. */
const SHUTDOWN_MS = 10_000
/** Time after the first signal in which more signals are ignored, because `timeout`, npm and terminals send several. */
const REPEATED_SIGNAL_MS = 500

interface ServeFlags {
  readonly only?: readonly ComponentName[]
  readonly host?: string
  readonly json?: boolean
  readonly namespaces?: Settings['GATEWAY_NAMESPACES']
  readonly apikey?: string
  readonly authentication?: boolean
  readonly [portOption: string]: unknown
}

export async function runServe(flags: ServeFlags): Promise<void> {
  const settings = withFlags(readSettings(process.env), flags)
  const isTerminal = process.stderr.isTTY === true
  const log = new HeldLog(pino.destination({ dest: 2, sync: true }), isTerminal)
  const logger = pino(
    { level: settings.LOG_LEVEL, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    log,
  )
  const host = flags.host ?? settings.HOST
  const names = COMPONENT_NAMES.filter((name) => flags.only?.includes(name) ?? true)
  const ports = new Map(names.map((name) => [name, choosePort(name, flags, settings.PORT)]))
  const publicHosts = new Set(settings.PUBLIC_HOSTS.map((name) => name.toLowerCase()))
  const shared = {
    ...{ host, logger, publicHosts, allowedOrigins: new Set(settings.ALLOW_ORIGINS) },
    ...{ replyBudget: new ReplyBudget(), denials: new Denials() },
  }
  const listeners: Listener[] = []
  let app: ComposedApp | null = null
  const close = async () => {
    // All at once, so that no listener accepts requests while another waits for its pending requests.
    await Promise.all(listeners.map((listener) => listener.close()))
    await app?.close()
  }
  try {
    await requireFreePorts(host, ports)
    // The folder is created before the components, because all of them store files in it.
    if (settings.SYSTEM_FOLDER !== null) requireFolder(settings.SYSTEM_FOLDER)
    app = await composeApp({ names, settings, host, clock: systemClock, logger, version: VERSION })
    for (const [name, component] of app.components) {
      const port = ports.get(name) ?? 0
      try {
        listeners.push(await startListener(component, { ...shared, port }))
      } catch (error) {
        throw listenFailure(error, name, host, port)
      }
    }
  } catch (error) {
    await close()
    log.release()
    throw startFailure(error, settings)
  }
  // Signals are handled before the addresses are printed, because a program that reads them may stop the node at once.
  closeOnSignal(close, logger)
  printAddresses(listeners, flags.json === true)
  // The banner is written only to a terminal, because its preset passwords must not get into a log file.
  if (isTerminal) process.stderr.write(bannerText({ listeners, settings, notices: app.notices }))
  log.release()
}

/** Returns `settings` with the values of the flags, which override the environment. */
function withFlags(settings: Settings, flags: ServeFlags): Settings {
  return {
    ...settings,
    GATEWAY_NAMESPACES: flags.namespaces ?? settings.GATEWAY_NAMESPACES,
    GATEWAY_API_KEY: flags.apikey ?? settings.GATEWAY_API_KEY,
    GATEWAY_AUTHENTICATION: flags.authentication ?? settings.GATEWAY_AUTHENTICATION,
  }
}

function printAddresses(listeners: readonly Listener[], isJson: boolean): void {
  const text = isJson
    ? `${JSON.stringify(Object.fromEntries(listeners.map(({ name, url }) => [name, url])))}\n`
    : listeners.map(({ name, url }) => `${name} ${url}\n`).join('')
  process.stdout.write(text)
}

function closeOnSignal(close: () => Promise<void>, logger: Logger): void {
  let firstMs: number | null = null
  const onSignal = (signal: string) => {
    const nowMs = performance.now()
    const action = signalAction(firstMs === null ? null : nowMs - firstMs)
    if (action === 'exit') process.exit(EXIT.finding)
    if (action === 'ignore') return
    firstMs = nowMs
    logger.info({ signal }, 'closing')
    setTimeout(() => {
      logger.error('not everything could be closed in time')
      process.exit(EXIT.finding)
    }, SHUTDOWN_MS).unref()
    close().then(
      () => process.exit(EXIT.success),
      (error: unknown) => {
        logger.error(error, 'closing failed')
        process.exit(EXIT.finding)
      },
    )
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
}

/**
 * Returns the reaction to a signal that arrives `sinceFirstMs` milliseconds after the first signal; null for the first
 * signal itself. After REPEATED_SIGNAL_MS, a signal means that the user does not want to wait for the shutdown.
 */
export function signalAction(sinceFirstMs: number | null): 'close' | 'ignore' | 'exit' {
  if (sinceFirstMs === null) return 'close'
  return sinceFirstMs <= REPEATED_SIGNAL_MS ? 'ignore' : 'exit'
}

/** Returns the error to report when the components cannot start. */
function startFailure(error: unknown, settings: Settings): unknown {
  if (error instanceof CodedError) {
    const code = String(error.code)
    let setting = ''
    if (/^(FOLDER|STORE|OUTCOME)_/.test(code)) setting = `${findSettingName(settings, error)}: `
    if (code === 'WITNESS_INVALID') setting = 'WITNESSES: '
    if (code === 'WITNESS_OF_INVALID') setting = 'WITNESS_OF: '
    if (code === 'PEER_INVALID' || code === 'PEERS_TOO_MANY') setting = 'PEERS: '
    // systemd starts the node again, because the database server may start later than the node.
    const exit = code === 'STORE_UNAVAILABLE' ? EXIT.finding : EXIT.configuration
    return new Exit(exit, `${setting}${error.message}`, { cause: error })
  }
  // A failed system call is a configuration error here, because it concerns a file or folder of the node.
  return findSystemExit(error, EXIT.configuration) ?? error
}

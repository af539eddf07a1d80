import { isIP } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../base/clock.ts'
import type { Credentials, HttpComponent } from '../http/index.ts'
import { type LedgerService, ledgerComponent, openLedger } from '../ledger/index.ts'
import { EXIT, Exit } from './exit.ts'
import type { Settings } from './settings.ts'

/** What components are made from. */
export interface Surroundings {
  readonly settings: Settings
  /** The address that all listeners bind. */
  readonly host: string
  readonly clock: Clock
  readonly logger: FastifyBaseLogger
  readonly version: string
  /** The ledger of this process, when it runs: made before the components after it. */
  ledger: LedgerService | null
  /** Lines for the person at the terminal, such as preset credentials; never logged. */
  readonly notices: string[]
}

/** How each component is made, in the order in which they start; a key is the name in `--only`. */
export const COMPONENTS = {
  ledger: ledger,
} as const satisfies Record<string, (around: Surroundings) => Promise<HttpComponent>>

/** A component that exists. */
export type ComponentName = keyof typeof COMPONENTS

/** Credentials for trying daicho out on one machine; never used on an address others can reach. */
const PRESET: Credentials = { name: 'admin', password: 'daicho' }

async function ledger(around: Surroundings): Promise<HttpComponent> {
  const { settings, clock, version } = around
  const credentials = dashboardCredentials(around)
  const opened = await openLedger({
    folder: settings.SYSTEM_FOLDER,
    difficulty: settings.LEDGER_DIFFICULTY,
    clock,
  })
  around.ledger = opened.service
  if (settings.SYSTEM_FOLDER === null) {
    const warning = 'SYSTEM_FOLDER is not set: all data is lost when this process ends'
    around.notices.push(warning)
    around.logger.warn(warning)
  }
  return ledgerComponent({
    ledger: opened.service,
    credentials,
    clock,
    version,
    close: () => opened.close(),
  })
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
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

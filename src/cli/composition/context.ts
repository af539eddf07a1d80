import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import type { Settings } from './settings.ts'

/** Arguments that every component gets. Services such as the ledger are separate arguments. */
export interface ComponentContext {
  readonly settings: Settings
  /** The address that all listeners use. */
  readonly host: string
  readonly isLoopback: boolean
  /** Where others reach the node: an address that is not loopback, or the names in PUBLIC_HOSTS. Otherwise null. */
  readonly publicAddress: string | null
  readonly clock: Clock
  readonly logger: FastifyBaseLogger
  readonly version: string
  /** Adds a line to the banner on the terminal, such as preset credentials. The line is never logged. */
  readonly notify: (line: string) => void
  /** Registers a function that runs after all listeners are closed. The function registered last runs first. */
  readonly onClose: (close: () => Promise<void>) => void
}

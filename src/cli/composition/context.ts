import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import type { Settings } from '../settings.ts'

/** Context of every component. The services that it needs are separate arguments. */
export interface ComponentContext {
  readonly settings: Settings
  /** The address that all listeners use. */
  readonly host: string
  readonly isLoopback: boolean
  readonly clock: Clock
  readonly logger: FastifyBaseLogger
  readonly version: string
  /** Adds a line for the terminal, such as preset credentials. It is never logged. */
  readonly notify: (line: string) => void
  /** Registers a function to call after all listeners are closed, in reverse order of registration. */
  readonly onClose: (close: () => Promise<void>) => void
}

import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../../base/clock.ts'
import type { Settings } from '../settings.ts'

/** What every component is created with, besides the services it needs. */
export interface ComponentContext {
  readonly settings: Settings
  /** The address that all listeners bind. */
  readonly host: string
  /** Whether only this machine can reach the listeners. */
  readonly isLoopback: boolean
  readonly clock: Clock
  readonly logger: FastifyBaseLogger
  readonly version: string
  /** Adds a line for the person at the terminal, such as preset credentials. Never logged. */
  readonly notify: (line: string) => void
  /** Registers a function that is called when all listeners are closed; the last one comes first. */
  readonly onClose: (close: () => Promise<void>) => void
}

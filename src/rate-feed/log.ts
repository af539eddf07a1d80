import type { Clock } from '../base/clock.ts'

/** Where the feed tells its operator what happens; a pino logger is one. */
export interface FeedLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const HOUR_MS = 3_600_000

/** Says each thing at most once an hour, so that a lasting fault does not fill the log. */
export class HourlyWarning {
  readonly #log: FeedLog
  readonly #clock: Clock
  /** When each subject was last warned of; subjects are source names and a few fixed words. */
  readonly #saidAt = new Map<string, number>()

  constructor(log: FeedLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** Warns of `subject`, unless that was done within the hour. */
  warn(subject: string, fields: object, message: string): void {
    const now = this.#clock.now()
    const saidAt = this.#saidAt.get(subject)
    if (saidAt !== undefined && now - saidAt < HOUR_MS && now >= saidAt) return
    this.#saidAt.set(subject, now)
    this.#log.warn(fields, message)
  }

  /** Says once that `subject` is well again, if it was warned of. */
  recovered(subject: string, fields: object, message: string): void {
    if (this.#saidAt.delete(subject)) this.#log.info(fields, message)
  }
}

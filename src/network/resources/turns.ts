import { NetworkError } from '../errors.ts'

/** Works that may wait for their turn, or for the disk. */
const WORKS_MAX = 10_000

/** Works that take turns, in the order in which they came. */
export class Turns<Subject> {
  #last: Promise<void> = Promise.resolve()
  #works = 0
  /**
   * What the works whose turn has not come yet are about, in their order; null where nobody need know. No
   * Set: the tables that one grows out of lead to the next, so one that counts as old would keep all that
   * comes after it in memory until the old are looked through.
   */
  readonly #waiting: (Subject | null)[] = []

  /** Works whose turn has not come yet. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** What the next works are about, `max` at most, up to one that nobody need know of. */
  next(max: number): readonly Subject[] {
    const subjects: Subject[] = []
    for (const subject of this.#waiting) {
      if (subject === null || subjects.length >= max) break
      subjects.push(subject)
    }
    return subjects
  }

  /**
   * Runs `work` when the turns of all before it have ended. Its own ends when it calls `release`, or
   * has ended itself. Errors: NETWORK_BUSY; those of `work`.
   */
  take<Result>(
    work: (release: () => void) => Promise<Result>,
    subject: Subject | null,
  ): Promise<Result> {
    if (this.#works >= WORKS_MAX) {
      throw new NetworkError('NETWORK_BUSY', 'too many requests wait for this network; try again')
    }
    this.#works += 1
    this.#waiting.push(subject)
    const turn = Promise.withResolvers<void>()
    const done = this.#last.then(() => {
      this.#waiting.shift()
      return work(turn.resolve)
    })
    this.#last = turn.promise
    return done.finally(() => {
      this.#works -= 1
      turn.resolve()
    })
  }
}

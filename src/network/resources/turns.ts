import { NetworkError } from '../errors.ts'

/** Works that may wait for their turn, or for the disk. */
const WORKS_MAX = 10_000

/** Works that take turns, in the order in which they came. */
export class Turns<Subject> {
  #last: Promise<void> = Promise.resolve()
  #works = 0
  /** What the works whose turn has not come yet are about; null where nobody need know. */
  readonly #waiting = new Set<{ readonly subject: Subject | null }>()

  /** Works whose turn has not come yet. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** What the next works are about, `max` at most, up to one that nobody need know of. */
  *next(max: number): Generator<Subject> {
    let left = max
    for (const { subject } of this.#waiting) {
      if (subject === null || left <= 0) return
      left -= 1
      yield subject
    }
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
    const waiting = { subject }
    this.#waiting.add(waiting)
    const turn = Promise.withResolvers<void>()
    const done = this.#last.then(() => {
      this.#waiting.delete(waiting)
      return work(turn.resolve)
    })
    this.#last = turn.promise
    return done.finally(() => {
      this.#works -= 1
      turn.resolve()
    })
  }
}

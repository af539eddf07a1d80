import { NetworkError } from '../errors.ts'

/** Works that may wait for their turn, or for the disk. */
const WORKS_MAX = 10_000

/** Works that take turns, in the order in which they came. */
export class Turns {
  #last: Promise<void> = Promise.resolve()
  #works = 0
  #waiting = 0

  /** Works whose turn has not come yet. */
  get waiting(): number {
    return this.#waiting
  }

  /**
   * Runs `work` when the turns of all before it have ended. Its own ends when it calls `release`, or
   * has ended itself. Errors: NETWORK_BUSY; those of `work`.
   */
  take<Result>(work: (release: () => void) => Promise<Result>): Promise<Result> {
    if (this.#works >= WORKS_MAX) {
      throw new NetworkError('NETWORK_BUSY', 'too many requests wait for this network; try again')
    }
    this.#works += 1
    this.#waiting += 1
    const turn = Promise.withResolvers<void>()
    const done = this.#last.then(() => {
      this.#waiting -= 1
      return work(turn.resolve)
    })
    this.#last = turn.promise
    return done.finally(() => {
      this.#works -= 1
      turn.resolve()
    })
  }
}

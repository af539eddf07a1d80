import { NetworkError } from '../errors.ts'

/** Works that may wait for their turn, or for the disk. */
const WAITING_MAX = 10_000

/** Works that take turns, in the order in which they came. */
export class Turns {
  #last: Promise<void> = Promise.resolve()
  #waiting = 0

  /**
   * Runs `work` when the turns of all before it have ended. Its own ends when it calls `release`, or
   * has ended itself. Errors: NETWORK_BUSY; those of `work`.
   */
  take<Result>(work: (release: () => void) => Promise<Result>): Promise<Result> {
    if (this.#waiting >= WAITING_MAX) {
      throw new NetworkError('NETWORK_BUSY', 'too many requests wait for this network; try again')
    }
    this.#waiting += 1
    const turn = Promise.withResolvers<void>()
    const done = this.#last.then(() => work(turn.resolve))
    this.#last = turn.promise
    return done.finally(() => {
      this.#waiting -= 1
      turn.resolve()
    })
  }
}

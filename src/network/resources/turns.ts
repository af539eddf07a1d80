import { NetworkError } from '../errors.ts'

/** Works that may wait for their turn. */
const WAITING_MAX = 10_000

/** Works that run one after the other, in the order in which they came. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** Runs `work` when all before it have ended. Errors: NETWORK_BUSY; those of `work`. */
  take<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#waiting >= WAITING_MAX) {
      throw new NetworkError('NETWORK_BUSY', 'too many requests wait for this network; try again')
    }
    this.#waiting += 1
    const turn = this.#last.then(work).finally(() => {
      this.#waiting -= 1
    })
    this.#last = turn.catch(() => {})
    return turn
  }
}

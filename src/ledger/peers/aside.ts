/** Work that goes on beside the rounds with a peer, one at a time. */
export class Aside {
  readonly #work: () => Promise<void>
  #isGoing = false
  /** What ended it the last time, or null. */
  error: unknown = null

  constructor(work: () => Promise<void>) {
    this.#work = work
  }

  /** Begins, unless it goes on already. */
  go(): void {
    if (this.#isGoing) return
    this.#isGoing = true
    void this.#run()
  }

  async #run(): Promise<void> {
    try {
      await this.#work()
      this.error = null
    } catch (error) {
      this.error = error
    }
    this.#isGoing = false
  }
}

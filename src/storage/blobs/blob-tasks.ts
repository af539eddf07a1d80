export class BlobTasks {
  readonly #running = new Set<Promise<unknown>>()
  /** The last ordered task of each blob. */
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `work`, for which `ended` waits. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    const running = work()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Runs `work` after the previous ordered tasks of the same blob. */
  async inOrder<Result>(sha256: string, work: () => Promise<Result>): Promise<Result> {
    const previous = this.#last.get(sha256) ?? Promise.resolve()
    const task = previous.then(work, work)
    this.#last.set(sha256, task)
    try {
      return await task
    } finally {
      if (this.#last.get(sha256) === task) this.#last.delete(sha256)
    }
  }

  /** Resolves when all tasks of `run` have ended, even with errors. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running)
  }
}

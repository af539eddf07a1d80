/**
 * Runs tasks one after the other. A task must not wait for another node, because a slow node would then delay all
 * others.
 */
export class MirrorTurns {
  #last: Promise<void> = Promise.resolve()

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(task)
    this.#last = done.then(
      () => {},
      () => {},
    )
    return done
  }
}

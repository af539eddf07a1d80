/** Exit code of a program that a signal ended, as shells report it: 128 and the number of the signal. */
const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const

/**
 * Makes SIGINT and SIGTERM end `program` until a command handles them itself. By default they do so only if the program
 * is not the first process of a container, for which the system ignores signals without a handler.
 */
export function endOnSignals(
  program: Pick<NodeJS.Process, 'pid' | 'on' | 'exit' | 'listenerCount'>,
): void {
  if (program.pid !== 1) return
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    program.on(signal, () => {
      if (program.listenerCount(signal) === 1) program.exit(EXIT_OF_SIGNAL[signal])
    })
  }
}

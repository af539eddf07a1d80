/** Exit code of a program that a signal ended, as shells report it: 128 and the number of the signal. */
export const EXIT_OF_SIGNAL = { SIGINT: 130, SIGPIPE: 141, SIGTERM: 143 } as const

const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Calls `act` before a signal ends the program. Returns a function that stops listening. */
export function beforeSignal(act: () => void): () => void {
  const onSignal = (signal: NodeJS.Signals) => {
    act()
    stop()
    process.kill(process.pid, signal)
  }
  const stop = () => {
    for (const signal of ENDING_SIGNALS) process.off(signal, onSignal)
  }
  for (const signal of ENDING_SIGNALS) process.on(signal, onSignal)
  return stop
}

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

import type { ChildProcess } from 'node:child_process'
import { databaseOf } from './engine.ts'
import { type Daicho, startProgram } from './program.ts'

export { runDaicho } from './command.ts'
export type { Daicho, Ended } from './program.ts'

/** Running programs. `leftovers.ts` kills the programs that still run at the end of a test file. */
export const running = new Set<ChildProcess>()

/** Starts a program like `startProgram`. A program that still runs at the end of the test file is killed. */
export function startDaicho(...parameters: Parameters<typeof startProgram>): Daicho {
  const daicho = startProgram(...parameters)
  running.add(daicho.child)
  daicho.child.on('close', () => running.delete(daicho.child))
  return daicho
}

/** A ledger in a process of its own. */
export interface ServedLedger extends Daicho {
  readonly url: string
}

/** Starts `daicho serve --only ledger` on a free port and waits until it listens. */
export async function serveLedger(
  folder: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<ServedLedger> {
  const database = await databaseOf(folder)
  const daicho = startDaicho(['serve', '--only', 'ledger', '--port', '0', '--json'], {
    SYSTEM_FOLDER: folder,
    ...(database === null ? {} : { STORE: database }),
    LOG_LEVEL: 'error',
    ...variables,
  })
  const url: string = JSON.parse(await daicho.firstLine).ledger
  return { ...daicho, url }
}

import type { ChildProcess } from 'node:child_process'
import { databaseOf } from './engine.ts'
import { type Daicho, type Ended, startProgram } from './program.ts'

export type { Daicho, Ended } from './program.ts'

/** Running programs; `leftovers.ts` kills them after the test file that started them. */
export const running = new Set<ChildProcess>()

/** `startProgram` for tests: a program still running at the end of the file is killed. */
export function startDaicho(...parameters: Parameters<typeof startProgram>): Daicho {
  const daicho = startProgram(...parameters)
  running.add(daicho.child)
  daicho.child.on('close', () => running.delete(daicho.child))
  return daicho
}

/** Runs `daicho <args>` until it exits. */
export function runDaicho(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return startDaicho(args, variables).ended
}

/** A ledger in a separate process. */
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

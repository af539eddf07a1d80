import { statSync } from 'node:fs'
import { CodedError } from '../base/coded-error.ts'
import { EXIT, Exit } from './exit.ts'
import type { Settings } from './settings.ts'

/**
 * The folder of the node that a command acts on, which exists unless it `mayBeNew`: what was
 * mistyped must not become a folder. Errors: Exit (configuration).
 */
export function nodeFolder(settings: Settings, { mayBeNew }: { mayBeNew: boolean }): string {
  const { SYSTEM_FOLDER: folder } = settings
  if (folder === null) {
    throw new Exit(
      EXIT.configuration,
      'set SYSTEM_FOLDER to the folder of the node; without one it keeps all of this in memory',
    )
  }
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found?.isDirectory() ?? mayBeNew) return folder
  throw new Exit(EXIT.configuration, `SYSTEM_FOLDER: there is no folder ${folder}`)
}

/** Runs `work`; a refusal with a code of `exits` ends the program with that exit code and its message. */
export async function exitingWith<Result>(
  exits: Readonly<Record<string, number>>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const code = error instanceof CodedError ? exits[String(error.code)] : undefined
    if (code === undefined || !(error instanceof CodedError)) throw error
    throw new Exit(code, error.message, { cause: error })
  }
}

/** How the program ends when a file of the node cannot be used. */
export const EXITS_OF_FILES = {
  FILE_DAMAGED: EXIT.configuration,
  FILE_UNREADABLE: EXIT.configuration,
  FILE_LOCKED: EXIT.finding,
} as const

import { createReadStream, existsSync, statSync } from 'node:fs'
import { ExportError } from '../ledger/core.ts'
import { isDamage } from '../storage/index.ts'
import { EXIT, Exit, exitOfSystem } from './exit.ts'
import { exitingWith } from './node-folder.ts'

/** How the program ends when stores, exports and keys refuse. */
const EXITS_OF_DATA = {
  FOLDER_IN_USE: EXIT.configuration,
  FOLDER_UNUSABLE: EXIT.configuration,
  FOLDER_KEY_MISSING: EXIT.configuration,
  STORE_NOT_FOUND: EXIT.usage,
  STORE_TOO_NEW: EXIT.configuration,
  STORE_TOO_OLD: EXIT.configuration,
  STORE_FOREIGN: EXIT.finding,
  STORE_DAMAGED: EXIT.finding,
  STORE_FULL: EXIT.finding,
  STORE_FAILED: EXIT.finding,
  CHAIN_DAMAGED: EXIT.finding,
  EXPORT_FOREIGN: EXIT.usage,
  EXPORT_TOO_NEW: EXIT.configuration,
  EXPORT_DAMAGED: EXIT.finding,
  IMPORT_OVER_STORE: EXIT.configuration,
  IMPORT_WITHOUT_KEY: EXIT.configuration,
} as const

/**
 * Runs the work of a command on data; what it refuses, and what the system refuses it, ends the
 * program with one line. Errors: Exit.
 */
export async function runOnData<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await exitingWith(EXITS_OF_DATA, work)
  } catch (error) {
    if (isDamage(error)) {
      const message = `the store cannot be read: ${error.message}`
      throw new Exit(EXIT.finding, message, { cause: error })
    }
    throw exitOfSystem(error) ?? error
  }
}

/** The same with the file at `path`: says of which file it is that it is no export. */
export async function runOnExport<Result>(
  path: string,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await runOnData(work)
  } catch (error) {
    const isForeign =
      error instanceof Exit && error.cause instanceof ExportError && error.code === EXIT.usage
    if (!isForeign) throw error
    throw new Exit(EXIT.usage, `there is no export in ${path}: ${error.message}`, { cause: error })
  }
}

/** Errors: Exit (usage) when `folder` is no folder. */
export function requireFolder(folder: string): void {
  if (existsSync(folder) && statSync(folder).isDirectory()) return
  throw new Exit(EXIT.usage, `there is no folder ${folder}`)
}

/** Bytes read from a file at a time. */
const CHUNK_BYTES = 1024 * 1024

/** The bytes of the file at `path`, or of stdin for `-`. Errors: Exit (usage) when there is none. */
export function bytesOfFile(path: string): AsyncIterable<Uint8Array> {
  if (path === '-') return process.stdin
  if (existsSync(path) && !statSync(path).isDirectory()) {
    return createReadStream(path, { highWaterMark: CHUNK_BYTES })
  }
  throw new Exit(EXIT.usage, `there is no file ${path}`)
}

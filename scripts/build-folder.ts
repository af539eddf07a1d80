import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT: string = fileURLToPath(new URL('..', import.meta.url))

/** File with the hash of a folder's sources. */
const MARK = '.sources'

/** A folder that is built from files of the project. */
export interface BuiltFolder {
  /** Path from the root of the project. */
  readonly folder: string
  /** Name for the progress message. */
  readonly name: string
  /** Patterns of the source files, relative to the root of the project. Tests are excluded. */
  readonly sources: readonly string[]
  /** Builds the folder in `making`, an absolute path that does not exist yet. */
  readonly make: (making: string) => Promise<void>
}

/**
 * Rebuilds a folder if its sources have changed. Builds the folder under a temporary name and then renames it, so that
 * no process sees an incomplete folder.
 */
export async function buildIfChanged({ folder, name, sources, make }: BuiltFolder): Promise<void> {
  const made = join(ROOT, folder)
  const mark = hashOf(sources)
  const isMade = () =>
    existsSync(join(made, MARK)) && readFileSync(join(made, MARK), 'utf8') === mark
  if (isMade()) return
  console.error(`daicho: building ${name} …`)
  const making = `${made}.${process.pid}`
  const former = `${making}.former`
  try {
    await make(making)
    writeFileSync(join(making, MARK), mark)
    // If another process has built the folder meanwhile, it stays, because that process may be reading it.
    if (isMade()) return
    if (existsSync(made)) renameSync(made, former)
    renameSync(making, made)
  } finally {
    for (const left of [making, former]) rmSync(left, { recursive: true, force: true })
  }
}

function hashOf(sources: readonly string[]): string {
  const hash = createHash('sha256')
  for (const path of globSync(sources, { cwd: ROOT, exclude: ['**/*.test.ts'] }).sort()) {
    hash.update(`${path}\n`)
    hash.update(readFileSync(join(ROOT, path)))
  }
  return hash.digest('hex')
}

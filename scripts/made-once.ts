import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the project. */
export const ROOT: string = fileURLToPath(new URL('..', import.meta.url))

/** The hash of the files that a folder was made of. */
const MARK = '.sources'

/** A folder that is made of files of the project. */
export interface Made {
  /** From the root of the project. */
  readonly folder: string
  /** What it is, for whoever waits. */
  readonly name: string
  /** Patterns of the files that it is made of, from the root; tests never are. */
  readonly sources: readonly string[]
  /** Makes it in the folder `making`, an absolute path, which is not there yet. */
  readonly make: (making: string) => Promise<void>
}

/**
 * Makes a folder again when a file that it is made of has changed since. It is made beside itself first
 * and then takes the place of the old one: nobody sees a part of it.
 */
export async function makeOnce({ folder, name, sources, make }: Made): Promise<void> {
  const made = join(ROOT, folder)
  const mark = hashOf(sources)
  const isMade = () =>
    existsSync(join(made, MARK)) && readFileSync(join(made, MARK), 'utf8') === mark
  if (isMade()) return
  console.error(`daicho: building ${name}, once …`)
  const making = `${made}.${process.pid}`
  const former = `${making}.former`
  try {
    await make(making)
    writeFileSync(join(making, MARK), mark)
    // Whoever was first may be reading it already.
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

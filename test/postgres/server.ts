import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { PASSWORD, type PostgresPrograms, USER } from './programs.ts'

const run = promisify(execFile)
/** Maximum length of the server log that is kept for error messages, characters. */
const LOG_LENGTH_MAX = 64 * 1024
/**
 * Maximum number of attempts to start a server. The processes of a killed server may still hold its shared
 * memory.
 */
const START_TRIES = 20

/** Settings of every server. The settings for durability stay on, because daicho rejects a server without them. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '32MB',
  max_wal_size: '128MB',
  wal_keep_size: '256MB',
  // Otherwise the server starts a process for each of hundreds of databases in each minute. daicho does not rely on it.
  autovacuum_naptime: '1h',
  // Keeps shared memory in a file in the data folder, so that a killed server leaves nothing elsewhere.
  dynamic_shared_memory_type: 'mmap',
}

export interface StandbyOptions {
  /** Name of the new data folder. */
  readonly folder: string
  /** Name of the standby in `synchronous_standby_names`. */
  readonly name: string
  /** Default: a free port. */
  readonly port?: number
}

/** A PostgreSQL server with its own data folder. A restarted server has the same port. */
export class PostgresServer {
  readonly data: string
  readonly port: number
  readonly #programs: PostgresPrograms
  #child: ChildProcess | null = null
  #log = ''

  private constructor(programs: PostgresPrograms, data: string, port: number) {
    this.#programs = programs
    this.data = data
    this.port = port
  }

  /** Creates a server and does not start it. `settings` are added to `postgresql.conf`. */
  static async create(
    programs: PostgresPrograms,
    name: string,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<PostgresServer> {
    const data = await programs.copyData(programs.template, name)
    const server = new PostgresServer(programs, data, await freePort())
    server.configure({ ...SETTINGS, port: String(server.port), ...settings })
    return server
  }

  /** Creates a standby from a copy of the data of `primary`, which may be running or stopped. */
  static async createStandby(
    primary: PostgresServer,
    { folder, name, port }: StandbyOptions,
  ): Promise<PostgresServer> {
    const programs = primary.#programs
    const label = primary.isRunning ? await primary.#copyRunning(folder) : null
    const data =
      label === null ? await programs.copyData(primary.data, folder) : join(programs.folder, folder)
    if (label !== null) programs.write(join(data, 'backup_label'), label)
    const standby = new PostgresServer(programs, data, port ?? (await freePort()))
    standby.follow(primary, name)
    standby.configure({ port: String(standby.port) })
    return standby
  }

  get isRunning(): boolean {
    return this.#child !== null
  }

  /** The log of the server since its last start. */
  get log(): string {
    return this.#log
  }

  /** Returns the URL of a database of this server. */
  url(database = 'postgres'): string {
    return `postgres://${USER}:${PASSWORD}@127.0.0.1:${this.port}/${database}`
  }

  /**
   * Adds lines to `postgresql.conf`. Of lines with the same name, the last one applies, after the next start
   * or `reload`.
   */
  configure(settings: Readonly<Record<string, string>>): void {
    const lines = Object.entries(settings).map(([name, value]) => {
      return `${name} = '${value.replaceAll("'", "''")}'\n`
    })
    appendFileSync(join(this.data, 'postgresql.conf'), lines.join(''))
  }

  /** Makes the server a standby of `primary` from its next start or `reload` on. */
  follow(primary: PostgresServer, name: string): void {
    this.#programs.write(join(this.data, 'standby.signal'), '')
    this.configure({
      primary_conninfo: `host=127.0.0.1 port=${primary.port} user=${USER} password=${PASSWORD} application_name=${name}`,
    })
  }

  /** Resolves when the server accepts connections. A standby accepts connections when its data is consistent. */
  async start(): Promise<void> {
    for (let tries = START_TRIES; ; tries -= 1) {
      try {
        await this.#startOnce()
        return
      } catch (error) {
        if (tries === 1 || !/pre-existing shared memory|in use/.test(this.#log)) throw error
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  /** Stops the server. `fast` closes connections and writes a checkpoint. `immediate` stops as in a crash. */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    await this.#end(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
  }

  /** Kills all processes of the server, as in a power failure. */
  async kill9(): Promise<void> {
    const { pid } = this.#child ?? {}
    if (pid === undefined) return
    // Stops the main process first, so that no new child process starts while its children are listed.
    process.kill(pid, 'SIGSTOP')
    const children = await childrenOf(pid)
    const [, memory] = this.#pidFile()[6]?.trim().split(/\s+/) ?? []
    for (const child of children) killIfThere(child)
    await this.#end('SIGKILL')
    // Removes the shared memory, because the server that would remove it may never start again.
    if (memory !== undefined) await run('ipcrm', ['-m', memory]).catch(() => {})
  }

  /** Stops answering without closing connections, like a host whose network is disconnected. */
  async pause(): Promise<void> {
    await this.#signalAll('SIGSTOP')
  }

  async resume(): Promise<void> {
    await this.#signalAll('SIGCONT')
  }

  /** Makes a standby a primary with new settings. Resolves when it accepts writes. */
  async promote(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    this.configure({ primary_conninfo: '', ...settings })
    await this.reload()
    await this.query('SELECT pg_promote(true, 60)')
  }

  async reload(): Promise<void> {
    await this.query('SELECT pg_reload_conf()')
  }

  /** Executes one statement on a new connection. */
  query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return queryOnce(this.url(), text, values)
  }

  /** Copies the data of the running server to the folder `name`. Returns the text of its `backup_label`. */
  async #copyRunning(name: string): Promise<string> {
    const client = new pg.Client(this.url())
    await client.connect()
    try {
      await client.query('SELECT pg_backup_start($1, true)', [name])
      const data = await this.#programs.copyData(this.data, name)
      // Omits the WAL, which the standby gets from the primary.
      for (const left of ['pg_wal', 'pg_replslot']) rmSync(join(data, left), { recursive: true })
      for (const folder of ['pg_wal', 'pg_replslot'])
        this.#programs.createFolder(join(name, folder))
      const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)')
      return rows[0].labelfile
    } finally {
      await client.end()
    }
  }

  async #startOnce(): Promise<void> {
    if (this.isRunning) throw new Error('the server is running')
    this.#log = ''
    const child = spawn(this.#programs.path('postgres'), ['-D', this.data], {
      ...this.#programs.options,
      stdio: ['ignore', 'ignore', 'pipe'],
      // Starts the server in its own process group, which Ctrl-C does not reach.
      detached: true,
    })
    this.#child = child
    child.on('exit', () => {
      this.#child = null
      // Removes the pid file, because another process could later have this pid.
      if (this.#pidFile()[0] === String(child.pid)) rmSync(join(this.data, 'postmaster.pid'))
    })
    await new Promise<void>((resolve, reject) => {
      child.stderr.on('data', (bytes) => {
        this.#log = (this.#log + bytes).slice(-LOG_LENGTH_MAX)
        if (this.#log.includes('ready to accept')) resolve()
      })
      child.on('error', (error) => {
        this.#child = null
        reject(error)
      })
      child.on('close', (code) => reject(new Error(`postgres ended with ${code}: ${this.#log}`)))
    })
  }

  async #end(signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    if (this.#child === null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill(signal)
    await ended
  }

  async #signalAll(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const { pid } = this.#child ?? {}
    if (pid === undefined) return
    process.kill(pid, signal)
    for (const child of await childrenOf(pid)) process.kill(child, signal)
  }

  #pidFile(): readonly string[] {
    const path = join(this.data, 'postmaster.pid')
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []
  }
}

/** Executes one statement on a new connection. */
export async function queryOnce(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  // Ignored, because the statement also reports the error.
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(text, [...values])).rows
  } finally {
    await client.end()
  }
}

/** Returns a free port below the range of outgoing connections. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000)
    const socket = createServer()
    socket.listen(port, '127.0.0.1')
    const isFree = await once(socket, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    socket.close()
    await once(socket, 'close')
    return port
  }
}

async function childrenOf(pid: number): Promise<readonly number[]> {
  const { stdout } = await run('pgrep', ['-P', String(pid)])
  return stdout.split('\n').filter(Boolean).map(Number)
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // Ignored: the process has exited.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

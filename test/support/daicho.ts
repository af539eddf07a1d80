import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const MAIN = join(root, 'src/cli/main.ts')

// Whatever a failed test leaves running goes with its file.
const running = new Set<ChildProcess>()
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
})

/** How a run of the program ended. */
export interface Ended {
  /** Null when a signal ended it. */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** `daicho` as a process of its own. */
export interface Daicho {
  readonly child: ChildProcess
  /** The first line on stdout; rejects when the program ends without one. */
  readonly firstLine: Promise<string>
  readonly ended: Promise<Ended>
}

const { NODE_COMPILE_CACHE } = process.env
/** A program takes half the time to start from sources that were compiled before. */
const COMPILED = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }

/**
 * Starts `daicho <args>` with nothing of daicho in its environment but `variables`; `via` is a program with
 * arguments that becomes it, `cwd` the folder that it starts in.
 */
export function startDaicho(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
  { via = [], cwd }: { via?: readonly string[]; cwd?: string } = {},
): Daicho {
  const flags = ['--disable-warning=ExperimentalWarning', MAIN, ...args]
  const [program = process.execPath, ...more] = [...via, process.execPath, ...flags]
  const child = spawn(program, more, {
    env: { ...COMPILED, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
  })
  running.add(child)
  child.on('close', () => running.delete(child))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (bytes) => {
    stdout += bytes
  })
  child.stderr.on('data', (bytes) => {
    stderr += bytes
  })
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
  const firstLine = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', () => {
      const end = stdout.indexOf('\n')
      if (end !== -1) resolve(stdout.slice(0, end))
    })
    child.on('close', (code) => reject(new Error(`ended with ${code}: ${stderr}`)))
  })
  firstLine.catch(() => {})
  return { child, firstLine, ended }
}

/** Runs `daicho <args>` to its end. */
export function runDaicho(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return startDaicho(args, variables).ended
}

/** A ledger served by a process of its own. */
export interface ServedLedger extends Daicho {
  readonly url: string
}

/** Starts `daicho serve --only ledger` on a free port and waits until it listens. */
export async function serveLedger(
  folder: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<ServedLedger> {
  const daicho = startDaicho(['serve', '--only', 'ledger', '--port', '0', '--json'], {
    SYSTEM_FOLDER: folder,
    LOG_LEVEL: 'error',
    ...variables,
  })
  const url: string = JSON.parse(await daicho.firstLine).ledger
  return { ...daicho, url }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../../scripts/node-flags.mjs'

/** A server under measurement, in its own process. */
export interface Server {
  readonly url: string
  /** Resident memory in MB. */
  residentMb(): number
  /** Seconds of processor time used so far. */
  cpuSeconds(): number
  stop(signal?: NodeJS.Signals): Promise<void>
}

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url))
/** Ticks per second, the unit of processor times in /proc/<pid>/stat. */
const TICKS = 100

/** Returns the seconds of processor time that a process has used, in user mode and in the kernel. */
export function cpuSecondsOf(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')
  return (Number(fields[13]) + Number(fields[14])) / TICKS
}

/** The started programs. They end with the benchmark, also if it is interrupted. */
const started: ChildProcess[] = []
process.on('exit', () => {
  for (const child of started) child.kill('SIGKILL')
})

/** Starts a program that prints one line of JSON with its address in the member `ledger`. */
async function startProgram(args: string[], env: Record<string, string>): Promise<Server> {
  const { child, addresses } = await startListeners(args, env)
  return serverOf(child, addresses.ledger ?? '')
}

async function startListeners(args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [...NODE_FLAGS, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, LOG_LEVEL: 'error', ...env },
  })
  started.push(child)
  if (child.stdout === null) throw new Error('no output of the server')
  const [line]: unknown[] = await once(child.stdout, 'data')
  const addresses: Record<string, string> = JSON.parse(String(line))
  return { child, addresses }
}

/** Returns a started process as a server. */
export function serverOf(child: ChildProcess, url: string): Server {
  const proc = (file: string) => readFileSync(`/proc/${child.pid}/${file}`, 'utf8')
  return {
    url,
    residentMb: () => Number(/VmRSS:\s+(\d+)/.exec(proc('status'))?.[1]) / 1024,
    cpuSeconds: () => cpuSecondsOf(child.pid),
    async stop(signal = 'SIGTERM') {
      const ended = once(child, 'exit')
      child.kill(signal)
      await ended
    },
  }
}

/** Time without work after which a server has no more work put off; it begins such work up to three seconds later. */
const SETTLED_MS = 3_500

/** Resolves when a server does nothing any more, so that work it put off is not measured as that of another. */
export async function settled(server: Server): Promise<void> {
  let used = server.cpuSeconds()
  for (let sinceMs = performance.now(); performance.now() - sinceMs < SETTLED_MS; ) {
    await new Promise((resolve) => setTimeout(resolve, 250))
    const now = server.cpuSeconds()
    if (now - used > 2 / TICKS) sinceMs = performance.now()
    used = now
  }
}

/** Starts a ledger that stores its data in `folder`. `main`: the program, of this or of another version. */
export function startLedger(
  folder: string,
  variables: Record<string, string> = {},
  main: string = path('../../src/cli/main.ts'),
): Promise<Server> {
  const flags = ['serve', '--only', 'ledger', '--port', '0', '--json']
  return startProgram([main, ...flags], { SYSTEM_FOLDER: folder, ...variables })
}

/** Starts a ledger and a gateway that store their data in `folder`. */
export async function startGateway(folder: string): Promise<{ ledger: Server; gateway: Server }> {
  const main = path('../../src/cli/main.ts')
  const ports = ['--port', '0', '--gateway-port', '0']
  const flags = ['serve', '--only', 'ledger,gateway', ...ports, '--json']
  // The gateway logs no warnings, because the benchmark provokes many script timeouts.
  const variables = { SYSTEM_FOLDER: folder, LOG_LEVEL: 'fatal' }
  const { child, addresses } = await startListeners([main, ...flags], variables)
  const { ledger = '', gateway = '' } = addresses
  return { ledger: serverOf(child, ledger), gateway: serverOf(child, gateway) }
}

/** Starts the baseline for the ledger. */
export function startBare(): Promise<Server> {
  return startProgram([path('./bare-app.ts')], {})
}

/** Starts the baseline for a store on PostgreSQL in the empty database `url`. */
export function startBarePostgres(url: string): Promise<Server> {
  return startProgram([path('./bare-postgres.ts'), url], {})
}

/** Starts the baseline for attachments, which stores files in `folder`. */
export function startBareFiles(folder: string): Promise<Server> {
  return startProgram([path('./bare-files.ts'), folder], {})
}

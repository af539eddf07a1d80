import { spawnSync } from 'node:child_process'
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Command, Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import {
  COMPONENT_NAMES,
  type ComponentName,
  parseComponentNames,
} from '../composition/components.ts'
import { listenFailure, portOf, takePort } from '../composition/ports.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, exitOf, exitOfSystem, reasonOf } from '../exit.ts'
import { fetchFromNode } from '../node/node-client.ts'
import { addFolderOption, KEY_FILE } from '../node/node-folder.ts'
import { print } from '../output/output.ts'

/** Free disk space below which doctor reports a problem, because changes will soon fail. */
const FREE_BYTES_MIN = 64 * 1024 ** 2
/** Free disk space below which doctor prints a warning. */
const FREE_BYTES_LOW = 1024 ** 3
/** Open files that a node can need: 3,000 connections on each of two ports, 1,000 on each of three, and 1,000 files. */
const OPEN_FILES_MIN = 10_000
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x517b, 'SMB'],
])
const PROBE_MS = 2_000
const IN_USE = 'in use by a running node'
/** Maximum number of files of another owner that a finding lists. */
const FOREIGN_SHOWN = 5

interface Finding {
  readonly check: 'folder' | 'key' | 'disk' | 'clock' | 'files' | 'ports'
  readonly state: 'ok' | 'warning' | 'problem'
  readonly message: string
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description('check the folder, key, disk, clock, file limit and ports of a node')
    .addOption(
      new Option(
        '--only <names>',
        `check the ports of these components only: ${COMPONENT_NAMES.join(',')}`,
      ).argParser(parseComponentNames),
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nChanges nothing; the node may be running. Run it as the user of the node. `daicho verify` checks the data.\n' +
        '\nExit code 0: no problems; there may be warnings. 1: problems were found. 78: an invalid variable.',
    )
    .action(doctor)
  return addFolderOption(command)
}

interface Flags {
  readonly only?: readonly ComponentName[]
  readonly json?: boolean
}

async function doctor({ only = COMPONENT_NAMES, json }: Flags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = settings.SYSTEM_FOLDER === null ? null : resolve(settings.SYSTEM_FOLDER)
  const denied = folder === null ? null : deniedFinding(folder)
  if (denied !== null) {
    print(json, { status: false, findings: [denied] }, lineOf(denied))
    process.exitCode = EXIT.finding
    return
  }
  const { signing, newestMs } = await storeFindings(folder, settings)
  const folderState = await folderFinding(folder)
  const isRunning = folder !== null && folderState.message.includes(IN_USE)
  const findings = [
    folderState,
    ...(folder === null ? [] : ownerFindings(folder)),
    ...signing,
    diskFinding(diskUsage(folder ?? process.cwd())),
    clockFinding(systemClock.now(), newestMs),
    fileLimitFinding(openFilesMax()),
    ...(await Promise.all(only.map((name) => portFinding(name, settings, isRunning)))),
  ]
  const isFine = findings.every(({ state }) => state !== 'problem')
  print(json, { status: isFine, findings }, findings.map(lineOf).join('\n'))
  if (!isFine) process.exitCode = EXIT.finding
}

function lineOf({ check, state, message }: Finding): string {
  return `${state.toUpperCase().padEnd(7)}  ${check.padEnd(6)}  ${message}`
}

/** Returns null if this user can read `folder`; otherwise the only finding, because no other check is possible. */
function deniedFinding(folder: string): Finding | null {
  try {
    const found = statSync(folder, { throwIfNoEntry: false })
    if (found === undefined) return null
    try {
      accessSync(folder, constants.R_OK | constants.X_OK)
      return null
    } catch {
      const message = `${folder} belongs to the user ${found.uid}: run doctor as that user`
      return { check: 'folder', state: 'problem', message }
    }
  } catch (error) {
    const message = `${folder} cannot be entered (${reasonOf(error)}): run doctor as the user of the node`
    return { check: 'folder', state: 'problem', message }
  }
}

/** Reports files whose owner is not the owner of `folder`, because the node may be unable to read these files. */
function ownerFindings(folder: string): readonly Finding[] {
  const owner = statSync(folder, { throwIfNoEntry: false })
  if (owner === undefined || process.platform === 'win32') return []
  const foreign = readdirSync(folder).filter((name) => {
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false })
    return found !== undefined && found.uid !== owner.uid
  })
  if (foreign.length === 0) return []
  const shown = foreign.slice(0, FOREIGN_SHOWN).join(', ')
  const names = foreign.length > FOREIGN_SHOWN ? `${shown} …` : shown
  const message = `${names}: not owned by the owner of the folder; run chown -R ${owner.uid}:${owner.gid} ${folder}`
  return [{ check: 'folder', state: 'problem', message }]
}

/** Checks that the node can use its folder, and that other users cannot. */
async function folderFinding(folder: string | null): Promise<Finding> {
  const finding = (state: Finding['state'], message: string): Finding => ({
    ...{ check: 'folder', state, message },
  })
  if (folder === null) {
    return finding(
      'warning',
      'no folder: all data is lost when the node ends; set SYSTEM_FOLDER or --folder',
    )
  }
  if (!existsSync(folder)) return finding('ok', `${folder} does not exist; serve creates it`)
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    const { type } = statfsSync(folder)
    const network = NETWORK_FILE_SYSTEMS.get(type)
    if (network !== undefined) {
      return finding(
        'problem',
        `${folder} is on ${network}, where locks are not safe: use a local disk`,
      )
    }
    const { mode } = statSync(folder)
    const isRunning = await isLocked(folder)
    const use = isRunning ? IN_USE : 'not in use'
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      return finding(
        'warning',
        `${folder} is open to other users: run chmod 700 ${folder} (${use})`,
      )
    }
    return finding('ok', `${folder}, ${use}`)
  } catch (error) {
    return finding('problem', `${folder} cannot be used: ${reasonOf(error)}`)
  }
}

/**
 * Whether a process has locked `folder`. Tries the lock only if a lock file exists, because the attempt would create
 * the file, which `verify` expects only in a used folder.
 */
async function isLocked(folder: string): Promise<boolean> {
  const { LOCK_FILE, lockFolder } = await import('../../storage/index.ts')
  if (!existsSync(join(folder, LOCK_FILE))) return false
  try {
    lockFolder(folder).release()
    return false
  } catch (error) {
    if (error instanceof CodedError && error.code === 'FOLDER_IN_USE') return true
    throw error
  }
}

/** Checks that the key is the key of the store. `newestMs`: time of the newest block; null if no block was read. */
async function storeFindings(
  folder: string | null,
  { STORE }: Settings,
): Promise<{ readonly signing: readonly Finding[]; readonly newestMs: number | null }> {
  const result = (state: Finding['state'], message: string, newestMs: number | null = null) => ({
    signing: [{ check: 'key', state, message } as const],
    newestMs,
  })
  if (folder === null || !existsSync(folder)) return { signing: [], newestMs: null }
  try {
    const { readSigningFiles, signingFinding } = await import('../../ledger/core.ts')
    const { openStoreReader, storeExists } = await import('../../storage/index.ts')
    const files = readSigningFiles(folder)
    if (!(await storeExists(STORE ?? folder))) {
      if (typeof files.key === 'object') return result('ok', `${KEY_FILE}; there is no store yet`)
      return result(files.key === 'missing' ? 'ok' : 'problem', `${KEY_FILE} is ${files.key}`)
    }
    const store = await openStoreReader(STORE ?? folder, { frozen: false })
    try {
      const newest = await store.head(store.serverId)
      const newestMs = newest?.timestamp ?? null
      if (files.key === 'missing') {
        return result('problem', `${KEY_FILE} is missing: put the key of the store back`, newestMs)
      }
      const what = await signingFinding(store, files)
      if (what !== null) return result('problem', what, newestMs)
      const { mode } = statSync(join(folder, KEY_FILE))
      if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
        return result(
          'problem',
          `other users can read ${KEY_FILE}: run chmod 600 ${KEY_FILE}`,
          newestMs,
        )
      }
      return result(
        'ok',
        `${KEY_FILE} is the key of the store, server id ${store.serverId}`,
        newestMs,
      )
    } finally {
      await store.close()
    }
  } catch (error) {
    const exit = exitOf(error) ?? exitOfSystem(error)
    if (exit === null) throw error
    return result('problem', exit.message)
  }
}

/** Returns the free bytes of the file system of `folder`, which may not exist yet, and the size of its store. */
function diskUsage(folder: string): { readonly free: number; readonly store: number } {
  let path = folder
  while (!existsSync(path)) path = dirname(path)
  const { bavail, bsize } = statfsSync(path)
  const store = ['ledger.db', 'ledger.db-wal']
    .map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0)
    .reduce((sum, size) => sum + size)
  return { free: bavail * bsize, store }
}

/** Checks the free bytes. Warns if two copies of the store do not fit, which an erasure needs. */
export function diskFinding({ free, store }: ReturnType<typeof diskUsage>): Finding {
  const message = `${sizeText(free)} free, the store is ${sizeText(store)}`
  if (free < FREE_BYTES_MIN)
    return { check: 'disk', state: 'problem', message: `${message}: free disk space` }
  const isLow = free < FREE_BYTES_LOW || free < 2 * store
  const advice = isLow ? ': an erasure or a backup may fail; free disk space' : ''
  return { check: 'disk', state: isLow ? 'warning' : 'ok', message: `${message}${advice}` }
}

const sizeText = (bytes: number) =>
  bytes < 1e9 ? `${Math.ceil(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`

/** Compares the clock with the newest block. `isSynchronised`: whether NTP sets the clock; null if unknown. */
export function clockFinding(
  nowMs: number,
  newestMs: number | null,
  isSynchronised = readSynchronisation(),
): Finding {
  const time = new Date(nowMs).toISOString()
  if (newestMs !== null && newestMs > nowMs) {
    const seconds = Math.ceil((newestMs - nowMs) / 1000)
    const message = `${time} is ${seconds} s before the time of the newest block; new blocks get this later time: set the clock`
    return { check: 'clock', state: 'problem', message }
  }
  if (isSynchronised === false) {
    const message = `${time}, not synchronised: enable NTP (timedatectl set-ntp true)`
    return { check: 'clock', state: 'warning', message }
  }
  const source = isSynchronised ? 'synchronised' : 'not before the time of the newest block'
  return { check: 'clock', state: 'ok', message: `${time}, ${source}` }
}

/** Returns whether NTP sets the clock, according to systemd; null without systemd. */
function readSynchronisation(): boolean | null {
  const args = ['show', '--property=NTPSynchronized', '--value']
  const { stdout, status } = spawnSync('timedatectl', args, { encoding: 'utf8', timeout: PROBE_MS })
  return status === 0 ? stdout.trim() === 'yes' : null
}

/** Checks the maximum number of open files; null if it is unlimited or unknown. */
export function fileLimitFinding(limit: number | null): Finding {
  if (limit === null)
    return { check: 'files', state: 'ok', message: 'no limit on open files found' }
  if (limit >= OPEN_FILES_MIN) {
    return { check: 'files', state: 'ok', message: `at most ${limit} open files` }
  }
  const message = `at most ${limit} open files, but a node can need ${OPEN_FILES_MIN}: raise ulimit -n (LimitNOFILE)`
  return { check: 'files', state: 'warning', message }
}

/** Returns the maximum number of open files of this process; null if it is unlimited, or if this is not Linux. */
function openFilesMax(): number | null {
  try {
    const [, limit] =
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? null : Number(limit)
  } catch {
    return null
  }
}

/** Checks that the port of a component is free, or that the running node answers on the port. */
async function portFinding(
  name: ComponentName,
  { HOST, PORT }: Settings,
  isRunning: boolean,
): Promise<Finding> {
  const port = portOf(name, {}, PORT)
  try {
    await (await takePort(HOST, port))()
    const other = isRunning && name === 'ledger' ? '; the running node uses another port' : ''
    return { check: 'ports', state: 'ok', message: `${name}: port ${port} is free${other}` }
  } catch (error) {
    if (await isComponent(HOST, port)) {
      if (!isRunning) {
        const message = `${name}: port ${port} is used by another daicho`
        return { check: 'ports', state: 'problem', message }
      }
      return { check: 'ports', state: 'ok', message: `${name}: a node answers on port ${port}` }
    }
    const failure = listenFailure(error, name, HOST, port)
    const message = failure instanceof Error ? failure.message : String(failure)
    return { check: 'ports', state: 'problem', message }
  }
}

async function isComponent(host: string, port: number): Promise<boolean> {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  const shown = name.includes(':') ? `[${name}]` : name
  try {
    const reply = await fetchFromNode(
      `http://${shown}:${port}/healthz`,
      {},
      { timeoutMs: PROBE_MS },
    )
    return reply.bytes.toString().startsWith('{"status":true')
  } catch {
    return false
  }
}

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { listenerUrl } from '../../base/url.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, requireExit } from '../exit.ts'
import { callNode } from '../node/node-client.ts'
import { KEY_FILE } from '../node/node-folder.ts'
import { print } from '../output/output.ts'
import { VERSION } from '../version.ts'

/** Free disk space below which changes will soon fail. */
const FREE_BYTES_MIN = 64 * 1024 ** 2

type Finding = readonly [check: string, state: 'ok' | 'warning' | 'problem', message: string]

export async function runDoctor({ json }: { readonly json?: boolean }): Promise<void> {
  const settings = readSettings(process.env)
  const versions: Finding = ['version', 'ok', `daicho ${VERSION}, Node ${process.versions.node}`]
  const found = [versions, ...(await checkFolder(settings))]
  const isFine = found.every(([, state]) => state !== 'problem')
  const findings = found.map(([check, state, message]) => ({ check, state, message }))
  const lines = found.map(
    ([check, state, message]) => `${state.toUpperCase().padEnd(7)}  ${check.padEnd(7)}  ${message}`,
  )
  print(json, { status: isFine, findings }, lines.join('\n'))
  if (!isFine) process.exitCode = EXIT.finding
}

async function checkFolder(settings: Settings): Promise<Finding[]> {
  if (settings.SYSTEM_FOLDER === null) {
    const message = 'no folder: all data is lost when the node ends; set SYSTEM_FOLDER or --folder'
    return [['folder', 'warning', message]]
  }
  const folder = resolve(settings.SYSTEM_FOLDER)
  try {
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) {
      return [['folder', 'ok', `${folder} does not exist; serve creates it`], checkDisk(folder)]
    }
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    const isRunning = await isLocked(folder)
    const use = isRunning ? 'in use by a running node' : 'not in use'
    const advice = `is open to other users: run chmod 700 ${folder}`
    return [
      isOpenToOthers(folder)
        ? ['folder', 'warning', `${folder} ${advice} (${use})`]
        : ['folder', 'ok', `${folder}, ${use}`],
      ...(await checkStore(folder, settings)),
      checkDisk(folder),
      ...(isRunning ? [await checkRunningNode(settings)] : []),
    ]
  } catch (error) {
    const { StoreError } = await import('../../storage/index.ts')
    const { message } = requireExit(error)
    const isDenied = !(error instanceof StoreError) || error.code === 'FOLDER_UNUSABLE'
    const advice = isDenied ? ': run doctor as the user of the node' : ''
    return [['folder', 'problem', `${message}${advice}`]]
  }
}

/** Tries the lock only if a lock file exists, because the attempt would create the file. */
async function isLocked(folder: string): Promise<boolean> {
  const { LOCK_FILE, lockFolder, StoreError } = await import('../../storage/index.ts')
  if (!existsSync(join(folder, LOCK_FILE))) return false
  try {
    lockFolder(folder).release()
    return false
  } catch (error) {
    if (error instanceof StoreError && error.code === 'FOLDER_IN_USE') return true
    throw error
  }
}

function isOpenToOthers(path: string): boolean {
  return process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0
}

/** Checks that the key is the key of the store, and that the clock is not before the newest block. */
async function checkStore(folder: string, { STORE }: Settings): Promise<Finding[]> {
  const { lostStoreFinding, readSigningFiles, signingFinding } = await import(
    '../../ledger/core.ts'
  )
  const { openStoreReader, storeExists, storeWarning } = await import('../../storage/index.ts')
  const files = readSigningFiles(folder)
  const warning = await storeWarning(STORE ?? folder)
  const warnings: Finding[] = warning === null ? [] : [['store', 'warning', warning]]
  if (!(await storeExists(STORE ?? folder))) {
    const lost = lostStoreFinding(folder)
    if (lost !== null) return [...warnings, ['store', 'problem', lost]]
    return [...warnings, ['key', 'ok', 'there is no store yet']]
  }
  const store = await openStoreReader(STORE ?? folder, { frozen: false })
  try {
    const newestMs = (await store.head(store.serverId))?.timestamp ?? 0
    // Read after the block, which a running node may have added at this moment.
    const clock = checkClock(systemClock.now(), newestMs)
    const missing = `${KEY_FILE} is missing: put the key of the store back`
    const what = files.key === 'missing' ? missing : await signingFinding(store, files)
    if (what !== null) return [...warnings, ['key', 'problem', what], clock]
    const isOpen = isOpenToOthers(join(folder, KEY_FILE))
    const advice = `other users can read ${KEY_FILE}: run chmod 600 ${KEY_FILE}`
    const message = `${KEY_FILE} is the key of the store, server id ${store.serverId}`
    return [...warnings, isOpen ? ['key', 'problem', advice] : ['key', 'ok', message], clock]
  } finally {
    await store.close()
  }
}

/** Compares the clock with the time of the newest block. */
export function checkClock(nowMs: number, newestMs: number): Finding {
  const time = new Date(nowMs).toISOString()
  if (newestMs <= nowMs) return ['clock', 'ok', time]
  const seconds = Math.ceil((newestMs - nowMs) / 1000)
  return ['clock', 'problem', `${time} is ${seconds} s before the newest block: set the clock`]
}

/** Checks the free bytes. Warns if two copies of the store do not fit, which an erasure needs. */
function checkDisk(folder: string): Finding {
  let path = folder
  while (!existsSync(path)) path = dirname(path)
  const { bavail, bsize } = statfsSync(path)
  const store = statSync(join(folder, 'ledger.db'), { throwIfNoEntry: false })?.size ?? 0
  return diskFinding({ free: bavail * bsize, store })
}

export function diskFinding({ free, store }: { free: number; store: number }): Finding {
  const [freeMb, storeMb] = [free, store].map((bytes) => Math.ceil(bytes / 1e6))
  const message = `${freeMb} MB free, the store is ${storeMb} MB`
  if (free < FREE_BYTES_MIN) return ['disk', 'problem', `${message}: free disk space`]
  if (free >= 2 * store) return ['disk', 'ok', message]
  return ['disk', 'warning', `${message}: an erasure or a backup may fail; free disk space`]
}

/** Asks the node whether it can work, and for its last verification. */
async function checkRunningNode({ HOST, PORT }: Settings): Promise<Finding> {
  try {
    const { verification } = await callNode({ url: listenerUrl(HOST, PORT) }, 'GET /readyz', {})
    const result = verification?.result ?? 'none, because VERIFY_EVERY is not set'
    return ['node', result === 'failed' ? 'problem' : 'ok', `last verification: ${result}`]
  } catch (error) {
    const { message } = requireExit(error)
    return ['node', message.startsWith('no node answers') ? 'warning' : 'problem', message]
  }
}

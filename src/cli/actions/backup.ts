import { resolve, sep } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import {
  type Backup,
  backupFolder,
  dropOldBackups,
  isDamage,
  isDatabaseUrl,
  openStoreReader,
  StoreError,
} from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import {
  BLOB_FOLDERS,
  DATA_FILES,
  findSigning,
  onStore,
  requireSourceFolder,
} from '../node/node-folder.ts'
import { count, formatFields, print, withProgress } from '../output/output.ts'

interface BackupFlags {
  readonly withoutKeys?: boolean
  readonly verify: boolean
  readonly keep?: number
  readonly json?: boolean
}

/** A backup, or the reason why there is none. */
interface Outcome extends Backup {
  /** The contradiction to the signed head, before anything was copied. */
  readonly contradiction?: string
}

/**
 * Compares the store with the signed head of the folder, because a backup has no signed head: a node on the backup of
 * an older store would fork the chain. Returns null if they agree, and if the store cannot be read, which the backup
 * reports itself.
 */
async function contradictedStore(folder: string): Promise<Outcome | null> {
  const { signing } = await findSigning(folder)
  if (signing === null || signing.head === null) return null
  const { signedHeadFinding } = await import('../../ledger/core.ts')
  try {
    const store = await openStoreReader(folder, { frozen: true })
    try {
      const contradiction = await signedHeadFinding(store, signing)
      if (contradiction === null) return null
      const { serverId } = store
      const head = await store.head(serverId)
      const [blocks, headId] = head === null ? [0, null] : [head.height + 1, head.id]
      return {
        path: null,
        serverId,
        blocks,
        headId,
        contents: 0,
        verification: null,
        contradiction,
      }
    } finally {
      await store.close()
    }
  } catch (error) {
    if (error instanceof StoreError || isDamage(error)) return null
    throw error
  }
}

/** Returns the mirror of the chain from which the databases of `folder` were restored; other nodes may not have it. */
async function restoredMirrors(folder: string): Promise<readonly string[]> {
  const { findRestoredMirror } = await import('../../ledger/core.ts')
  const mirror = findRestoredMirror(folder)
  return mirror === null ? [] : [mirror]
}

export async function runBackup(folder: string, to: string, flags: BackupFlags): Promise<void> {
  if (isDatabaseUrl(folder)) {
    const message =
      'daicho backup copies only data folders; back up a PostgreSQL database with its own tools, such as ' +
      'pg_basebackup or pg_dump, or write its data to a folder with daicho copy, or to a file with daicho export'
    throw new Exit(EXIT.usage, message)
  }
  requireSourceFolder(folder)
  if (`${resolve(to)}${sep}`.startsWith(`${resolve(folder)}${sep}`)) {
    throw new Exit(EXIT.usage, `${to} is inside the folder to back up`)
  }
  const hasKeys = flags.withoutKeys !== true
  const files = DATA_FILES.filter(({ isKey }) => hasKeys || !isKey)
  const { result, seconds } = await withProgress('backing up', (line) =>
    onStore(async (): Promise<{ created: Outcome; removed: readonly string[] }> => {
      const contradicted = await contradictedStore(folder)
      if (contradicted !== null) return { created: contradicted, removed: [] }
      const created = await backupFolder({
        folder,
        to,
        nowMs: systemClock.now(),
        files: files.map(({ name }) => name),
        blobFolders: BLOB_FOLDERS,
        mirrors: await restoredMirrors(folder),
        verify: flags.verify,
        progress: (share, detail) => line.update(share, detail),
      })
      const { path } = created
      if (flags.keep === undefined || path === null) return { created, removed: [] }
      return { created, removed: await dropOldBackups(to, flags.keep, path) }
    }),
  )
  const { created, removed } = result
  const { path, serverId, blocks, headId, contents, verification, contradiction } = created
  const finding =
    contradiction === undefined
      ? (verification?.finding ?? null)
      : { height: null, index: null, what: contradiction }
  const json = {
    status: path !== null,
    path,
    serverId,
    blocks,
    headId,
    attachments: contents,
    keys: hasKeys,
    verified: verification !== null && finding === null,
    removed,
    finding,
  }
  print(flags.json, json, backupText(created, removed, hasKeys, seconds))
  process.exitCode = path === null ? EXIT.finding : EXIT.success
}

function backupText(
  { path, serverId, blocks, headId, verification, contradiction }: Outcome,
  removed: readonly string[],
  hasKeys: boolean,
  seconds: number,
): string {
  if (contradiction !== undefined) return `NO BACKUP: ${contradiction}`
  if (path === null) {
    const { height = null, index = null, what } = verification?.finding ?? {}
    const entry = index === null ? '' : `, entry ${index}`
    const position = height === null ? '' : ` at height ${height}${entry}`
    return `NO BACKUP: the store is damaged${position}: ${what}`
  }
  const state = verification === null ? 'not verified' : 'everything is valid'
  const fields = {
    folder: path,
    'server id': serverId,
    head: headId ?? '(none)',
    keys: hasKeys
      ? 'included: keep the backup as safe as the node'
      : 'left out: keep a copy of node.key elsewhere',
    time: `${seconds.toFixed(1)} s`,
    removed,
  }
  return `Backed up: ${count(blocks, 'block')}, ${state}.\n${formatFields(fields)}`
}

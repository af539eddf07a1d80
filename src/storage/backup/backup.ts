import { mkdirSync, rmSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileExists, syncPath } from '../../base/files/durable-files.ts'
import { unpackPosition } from '../../chain/index.ts'
import { lockFolder, requireFolder, requireStoreFile, toStorePath } from '../location/folder.ts'
import { openStoreReader } from '../open.ts'
import { diskError } from '../port/errors.ts'
import type { StoreReader } from '../port/store.ts'
import { snapshotSqlite } from '../sqlite/snapshot.ts'
import type { Finding } from '../verify/chain-walk.ts'
import { type Verification, verifyStore } from '../verify/verify.ts'
import { namedNow } from '../verify/verify-blobs.ts'
import {
  type BlobFolder,
  copyDurably,
  copyMissingBlobs,
  removeSurplusBlobs,
} from './durable-files.ts'

/** Name of the folder of an incomplete backup. The folder is renamed when the backup is complete. */
const PARTIAL = '.partial'
/** Name of the folder whose lock allows one backup at a time. */
const LOCK = '.lock'
/** Prefix of backups that are being removed. */
const EXPIRED = '.expired-'
/** Name of a backup: its time in UTC (`2026-11-20T19-30-05.123Z`), so that names sort by time. */
const BACKUP_NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/
const BLOBS_PER_PAGE = 500
/** Fraction of the progress that is reported for copying, if the copy is verified afterwards. */
const COPY_SHARE = 0.3

export interface BackupOptions {
  /** The data folder, which a running node may use. */
  readonly folder: string
  /** The folder of backups; created if it is missing. */
  readonly to: string
  /** Time of the backup in milliseconds since the Unix epoch, from which its name is formed. */
  readonly nowMs: number
  /** Names of other files to copy, if they exist. */
  readonly files: readonly string[]
  /**
   * Folders of blobs (files named by their SHA-256, `<2 digits>/<62 digits>`), each with the name of its subfolder for
   * incoming blobs.
   */
  readonly blobFolders: readonly { readonly name: string; readonly incoming: string }[]
  /** Relative paths of mirrors to copy, like the data folder itself. */
  readonly mirrors: readonly string[]
  readonly verify: boolean
  readonly progress: BackupProgress
}

/** Called at intervals during a backup. `share` is the completed fraction, from 0 to 1. */
export type BackupProgress = (share: number, phase: string) => void

export interface Backup {
  /** The new folder, or null if the verification found a difference. */
  readonly path: string | null
  readonly serverId: number
  readonly blocks: number
  readonly headId: string | null
  /** Number of blobs that were copied; all other blobs were linked to the last backup. */
  readonly contents: number
  /** Null if no verification was requested. */
  readonly verification: Verification | null
}

/**
 * Copies a data folder, which a running node may use, to a new folder in `to` that can replace the data folder.
 *
 * The backup is written to `<to>/.partial`, and renamed when it is on disk and verified. A crash before the rename
 * leaves `.partial`, and the next run reuses the complete blobs in it.
 * Errors: STORE_NOT_FOUND, FOLDER_UNUSABLE, FOLDER_IN_USE during another backup, STORE_FULL, STORE_DAMAGED.
 */
export async function backupFolder(options: BackupOptions): Promise<Backup> {
  const { folder, to, nowMs } = options
  requireStoreFile(toStorePath(folder))
  const partial = join(to, PARTIAL)
  // The lock is outside of the backup: `verify` takes a folder with a lock file for that of a node.
  const lock = lockFolder(join(to, LOCK))
  try {
    requireFolder(partial)
    const copy = await fillPartial(options, partial)
    if ((copy.verification?.finding ?? null) !== null) return { path: null, ...copy }
    const path = join(to, await freeName(to, nowMs))
    await rename(partial, path)
    syncPath(to)
    return { path, ...copy }
  } catch (error) {
    throw diskError(error, `the disk is full: ${to} was not written`)
  } finally {
    // The lock stays. A process that waits for the lock has it open, and would not exclude one that creates
    // a new file.
    lock.release()
  }
}

async function fillPartial(options: BackupOptions, partial: string): Promise<Omit<Backup, 'path'>> {
  const { folder, to, mirrors } = options
  await clearPartial(options, partial)
  for (const name of mirrors) {
    mkdirSync(join(partial, name), { recursive: true, mode: 0o700 })
    const mirror = { ...options, folder: join(folder, name), progress: () => {} }
    const copy = await copyFolder(mirror, join(partial, name), name)
    if ((copy.verification?.finding ?? null) !== null) return copy
    syncPath(dirname(join(partial, name)))
  }
  const copy = await copyFolder(options, partial, '')
  syncPath(to)
  return copy
}

/** Copies a data folder or a mirror. `name` is the relative path of the folder in a backup. */
async function copyFolder(
  options: BackupOptions,
  partial: string,
  name: string,
): Promise<Omit<Backup, 'path'>> {
  const { folder, files, verify, progress } = options
  const contents = await prepareBlobFolders(options, partial, name)
  let copied = 0
  // Copies the blobs, then the store, then the blobs that were added in between. So the copy has every blob to which
  // its store refers. Blobs that were erased before the copy of the store, and those of an interrupted run, are removed.
  for (const blobFolder of contents) {
    progress(0, 'files')
    copied += await copyMissingBlobs(blobFolder, verify)
  }
  const copyShare = verify ? COPY_SHARE : 1
  const snapshot = await snapshotSqlite(toStorePath(folder), toStorePath(partial), (share) =>
    progress(share * copyShare, 'copied'),
  ).catch(async (error) => {
    // An incomplete store cannot be reused.
    await removeStore(partial)
    throw error
  })
  for (const one of contents) {
    copied += await copyMissingBlobs(one, false)
    await removeSurplusBlobs(one, async (sha256) => (await namedNow(partial, sha256)) !== null)
    // Creates the incoming folder in the copy too: a node that finds it at its start recovers as after a kill, and
    // removes the blobs to which no entry refers. The copy may have such blobs.
    if (fileExists(join(one.from, one.incoming))) mkdirSync(join(one.to, one.incoming))
  }
  for (const name of files) {
    if (fileExists(join(folder, name))) await copyDurably(join(folder, name), join(partial, name))
  }
  syncPath(partial)
  const verification = verify ? await verifyCopy(partial, contents, progress) : null
  return { ...snapshot, contents: copied, verification }
}

/** Removes the leftovers of an interrupted run, which may be of another node, except blobs that can be reused. */
async function clearPartial(
  { folder, blobFolders }: BackupOptions,
  partial: string,
): Promise<void> {
  for (const name of await readdir(partial)) {
    const isKept = blobFolders.some((one) => one.name === name) && fileExists(join(folder, name))
    if (!isKept) await rm(join(partial, name), { recursive: true, force: true })
  }
}

async function removeStore(partial: string): Promise<void> {
  for (const suffix of ['', '-journal', '-wal', '-shm']) {
    await rm(toStorePath(partial) + suffix, { force: true })
  }
}

async function prepareBlobFolders(
  { folder, to, blobFolders }: BackupOptions,
  partial: string,
  inBackup: string,
): Promise<(BlobFolder & { incoming: string })[]> {
  const last = (await listBackups(to)).at(-1)
  return blobFolders
    .filter(({ name }) => fileExists(join(folder, name)))
    .map(({ name, incoming }) => {
      mkdirSync(join(partial, name), { recursive: true, mode: 0o700 })
      rmSync(join(partial, name, incoming), { recursive: true, force: true })
      const previous = last === undefined ? null : join(to, last, inBackup, name)
      return { from: join(folder, name), to: join(partial, name), previous, incoming }
    })
}

/** Verifies the copy of a store. Its blobs were verified when they were copied or linked, but some may be missing. */
async function verifyCopy(
  partial: string,
  contents: readonly BlobFolder[],
  progress: BackupProgress,
): Promise<Verification> {
  const store = await openStoreReader(partial, { frozen: true })
  try {
    const verification = await verifyStore(store, {
      progress: ({ blocks, ofBlocks }) => {
        const share = ofBlocks === 0 ? 1 : Math.min(1, blocks / ofBlocks)
        progress(COPY_SHARE + share * (1 - COPY_SHARE), 'verified')
      },
    })
    // A mirror may lack blobs that its source lacks.
    if (verification.finding !== null || fileExists(join(partial, 'vkey'))) return verification
    return { ...verification, finding: await missingBlob(store, contents) }
  } finally {
    await store.close()
  }
}

async function missingBlob(
  store: StoreReader,
  folders: readonly BlobFolder[],
): Promise<Finding | null> {
  for (let after = ''; ; ) {
    const page = await store.attachments.blobs(after, BLOBS_PER_PAGE)
    for (const { sha256 } of page) {
      const path = join(sha256.slice(0, 2), sha256.slice(2))
      if (folders.some(({ to }) => fileExists(join(to, path)))) continue
      const at = (await store.attachments.namedAt(sha256)) ?? 0
      return { ...unpackPosition(at), what: `blob ${sha256} is missing` }
    }
    const last = page.at(-1)
    if (last === undefined) return null
    after = last.sha256
  }
}

/** Returns whether all blocks of the backup in `folder` are in `made`; false if a store cannot be read. */
async function isContained(folder: string, made: StoreReader): Promise<boolean> {
  let store: StoreReader | null = null
  try {
    store = await openStoreReader(folder, { frozen: true })
    const { serverId } = store
    const head = await store.head(serverId)
    if (serverId !== made.serverId || head === null) return serverId === made.serverId
    const [block] = await made.blocks(serverId, head.height, 1)
    return block?.id === head.id
  } catch {
    return false
  } finally {
    await store?.close()
  }
}

/** Lists the names of the backups in `to`, oldest first. */
async function listBackups(to: string): Promise<string[]> {
  return (await readdir(to)).filter((name) => BACKUP_NAME.test(name)).sort()
}

async function freeName(to: string, nowMs: number): Promise<string> {
  const existing = new Set(await readdir(to))
  for (let ms = nowMs; ; ms += 1) {
    const name = new Date(ms).toISOString().replaceAll(':', '-')
    if (!existing.has(name)) return name
  }
}

/**
 * Removes all but `keep` backups of one node in `to`: keeps the backup at `path`, which was just made, and the newest of
 * the others. The name of another backup may be in the future, if the clock was wrong. Backups with blocks that the new one
 * lacks stay, because the node may have been restored from an older one. Returns the removed names. Renames each backup
 * before removing it, so that a crash leaves no incomplete backup.
 */
export async function dropOldBackups(to: string, keep: number, path: string): Promise<string[]> {
  const others: string[] = []
  // A damaged backup, which was not verified, replaces no other.
  const made = await openStoreReader(path, { frozen: true }).catch(() => null)
  if (made === null) return []
  try {
    for (const name of await listBackups(to)) {
      const isOther = name !== basename(path)
      if (isOther && (await isContained(join(to, name), made))) others.push(name)
    }
  } finally {
    await made.close()
  }
  const old = others.slice(0, Math.max(0, others.length - (keep - 1)))
  for (const name of old) await rename(join(to, name), join(to, EXPIRED + name))
  for (const name of await readdir(to)) {
    if (name.startsWith(EXPIRED)) await rm(join(to, name), { recursive: true, force: true })
  }
  return old
}

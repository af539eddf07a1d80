import { mkdirSync, rmSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { StoreError } from '../errors.ts'
import { fileExists, holdFolder, LOCK_FILES, requireStoreFile, storePathIn } from '../folder.ts'
import { openStoreReader } from '../open.ts'
import { snapshotSqlite } from '../sqlite/snapshot.ts'
import { type Verification, verifyStore } from '../verify/verify.ts'
import {
  type ContentFolders,
  copyDurably,
  copyMissing,
  dropSurplus,
  roomError,
  sync,
} from './durable-files.ts'

/** Where a backup is made; it gets its name when it is whole. */
const PARTIAL = '.partial'
/** Backups on their way out, which are no backups any more. */
const EXPIRED = '.expired-'
/** `2026-11-20T19-30-05.123Z`, in UTC, so that the order of names is that of time. */
const BACKUP_NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/
/** The share of the progress that copying has when the copy is verified afterwards. */
const COPY_SHARE = 0.3

/** What to back up, and where to. */
export interface BackupOptions {
  /** A data folder; its node may be running. */
  readonly folder: string
  /** The folder of backups; made when it is missing. */
  readonly to: string
  /** Milliseconds since the Unix epoch; gives the backup its name. */
  readonly nowMs: number
  /** Files of the folder that are copied when they are there. */
  readonly files: readonly string[]
  /**
   * Folders in it of files that are called after their content, `<2 digits>/<62 digits>` of its
   * SHA-256, and the folder in each that is there while more may be on their way.
   */
  readonly contentFolders: readonly { readonly name: string; readonly incoming: string }[]
  /** Whether the copy is verified before it gets its name. */
  readonly verify: boolean
  readonly progress: BackupProgress
}

/** Called now and then; `share` is 0..1. */
export type BackupProgress = (share: number, doing: string) => void

/** What was made. */
export interface Backup {
  /** The new folder, or null when the copy does not verify and so became none. */
  readonly path: string | null
  readonly serverId: number
  readonly blocks: number
  readonly headId: string | null
  /** How many files called after their content were copied, not linked to those of the last backup. */
  readonly contents: number
  /** Null when it was not asked for, or cannot be done because the store has an older format. */
  readonly verification: Verification | null
}

/**
 * Copies a data folder, also while its node runs, to a new folder in `to` that can take its place.
 *
 * It is made in `<to>/.partial` and gets its name when all of it is on the disk and verified. What a
 * crash leaves, at each point:
 * - before the rename: `.partial`, which nothing takes for a backup. The next run makes its store
 *   anew and keeps the finished files that are called after their content.
 * - after it: the whole backup.
 * Errors: StoreError (STORE_NOT_FOUND, FOLDER_UNUSABLE, FOLDER_IN_USE when another backup goes on there, STORE_FULL,
 * STORE_DAMAGED …).
 */
export async function backupFolder(options: BackupOptions): Promise<Backup> {
  const { folder, to, nowMs } = options
  requireStoreFile(storePathIn(folder))
  const partial = join(to, PARTIAL)
  const held = holdFolder(partial)
  let path: string | null = null
  try {
    const copy = await fillPartial(options, partial)
    if ((copy.verification?.finding ?? null) === null) {
      path = join(to, await freeName(to, nowMs))
      await rename(partial, path)
      sync(to)
    }
    return { path, ...copy }
  } catch (error) {
    throw roomError(error, to)
  } finally {
    held.release()
    // The lock was the work's, not the backup's; without a backup it is the next run's.
    if (path !== null) {
      for (const name of LOCK_FILES) await rm(join(path, name), { force: true })
    }
  }
}

async function fillPartial(options: BackupOptions, partial: string): Promise<Omit<Backup, 'path'>> {
  const { folder, to, files, verify, progress } = options
  const contents = await contentFoldersOf(options, partial)
  await forgetAllBut(contents, partial)
  let copied = 0
  // Files first, what the store names second, then what came meanwhile: the snapshot names nothing
  // that is not in one of the two. What was removed before it is not kept from an earlier run.
  for (const one of contents) {
    progress(0, 'files')
    copied += await copyMissing(one)
    await dropSurplus(one)
  }
  const copyShare = verify ? COPY_SHARE : 1
  const snapshot = await snapshotSqlite(storePathIn(folder), storePathIn(partial), (share) =>
    progress(share * copyShare, 'copied'),
  ).catch(async (error) => {
    // Half a store is of no use, and on a full disk it is in the way.
    await forgetStore(partial)
    throw error
  })
  for (const one of contents) {
    copied += await copyMissing(one)
    // Some of them the snapshot may not name: the copy says so in the way that a killed node does.
    if (fileExists(join(one.from, one.incoming))) mkdirSync(join(one.to, one.incoming))
  }
  for (const name of files) {
    if (fileExists(join(folder, name))) await copyDurably(join(folder, name), join(partial, name))
  }
  sync(partial)
  sync(to)
  const verification = verify ? await verified(partial, progress) : null
  return { ...snapshot, contents: copied, verification }
}

/** Leaves of a run that was interrupted only folders of files called after their content. */
async function forgetAllBut(contents: readonly ContentFolders[], partial: string): Promise<void> {
  const kept = new Set([...LOCK_FILES, ...contents.map(({ to }) => basename(to))])
  for (const name of await readdir(partial)) {
    if (!kept.has(name)) await rm(join(partial, name), { recursive: true, force: true })
  }
}

/** Removes a store that is not whole. */
async function forgetStore(partial: string): Promise<void> {
  for (const ending of ['', '-journal', '-wal', '-shm']) {
    await rm(storePathIn(partial) + ending, { force: true })
  }
}

async function contentFoldersOf(
  { folder, to, contentFolders }: BackupOptions,
  partial: string,
): Promise<(ContentFolders & { incoming: string })[]> {
  const last = (await backupsIn(to)).at(-1)
  return contentFolders
    .filter(({ name }) => fileExists(join(folder, name)))
    .map(({ name, incoming }) => {
      mkdirSync(join(partial, name), { recursive: true, mode: 0o700 })
      rmSync(join(partial, name, incoming), { recursive: true, force: true })
      const earlier = last === undefined ? null : join(to, last, name)
      return { from: join(folder, name), to: join(partial, name), earlier, incoming }
    })
}

async function verified(partial: string, progress: BackupProgress): Promise<Verification | null> {
  try {
    const store = openStoreReader(partial, { frozen: true })
    try {
      return await verifyStore(store, {
        progress: ({ blocks, ofBlocks }) => {
          const share = ofBlocks === 0 ? 1 : Math.min(1, blocks / ofBlocks)
          progress(COPY_SHARE + share * (1 - COPY_SHARE), 'verified')
        },
      })
    } finally {
      await store.close()
    }
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_TOO_OLD') return null
    throw error
  }
}

/** The names of the backups in `to`, oldest first. */
async function backupsIn(to: string): Promise<string[]> {
  return (await readdir(to)).filter((name) => BACKUP_NAME.test(name)).sort()
}

async function freeName(to: string, nowMs: number): Promise<string> {
  const taken = new Set(await readdir(to))
  for (let ms = nowMs; ; ms += 1) {
    const name = new Date(ms).toISOString().replaceAll(':', '-')
    if (!taken.has(name)) return name
  }
}

/**
 * Removes all backups in `to` but the `keep` newest, and gives the names of those that went. A backup
 * loses its name first, so that a crash leaves no half one.
 */
export async function dropOldBackups(to: string, keep: number): Promise<string[]> {
  const old = (await backupsIn(to)).slice(0, -keep)
  for (const name of old) await rename(join(to, name), join(to, EXPIRED + name))
  for (const name of await readdir(to)) {
    if (name.startsWith(EXPIRED)) await rm(join(to, name), { recursive: true, force: true })
  }
  return old
}

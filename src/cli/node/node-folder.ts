import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import type { CodedError } from '../../base/coded-error.ts'
import type { SigningFiles } from '../../ledger/core.ts'
import type { StoreLocation } from '../../storage/index.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { EXIT, Exit, findSystemExit } from '../exit.ts'
import { warn } from '../output/output.ts'

/** File with the private key of a node. Without this key, the node cannot continue its chain. */
export const KEY_FILE = 'node.key'

/**
 * Files that a backup copies in addition to the store. A backup leaves out files that a node recreates, and files that
 * must not be restored from an old copy. docs/reference/operation.md lists all files.
 */
export const DATA_FILES: readonly {
  readonly name: string
  /** Whether the file contains a private key. Anyone who reads the key can act as the node. */
  readonly isKey: boolean
}[] = [
  { name: KEY_FILE, isKey: true },
  { name: 'token-keys.json', isKey: true },
  { name: 'token-revocations.json', isKey: false },
  { name: 'peers.json', isKey: false },
  { name: 'evidence.json', isKey: false },
  { name: 'users.json', isKey: false },
  { name: 'rates.json', isKey: false },
  { name: 'restored.json', isKey: false },
  ...['vkey', 'checkpoint', 'seen'].map((name) => ({ name, isKey: false })), // of a mirror
]

/** Folders of blobs, each with a subfolder for unfinished blobs. */
export const BLOB_FOLDERS = [{ name: 'attachments', incoming: 'incoming' }] as const

/** The flag that `addFolderOption` adds. */
export interface FolderFlags {
  readonly folder?: string
}

/** Adds the flag `--folder`, which takes precedence over SYSTEM_FOLDER, to `command` or to its subcommands. */
export function addFolderOption(command: Command, about = 'data folder of the node'): Command {
  for (const subcommand of command.commands) addFolderOption(subcommand, about)
  if (command.commands.length > 0) return command
  return command
    .option('--folder <path>', `${about} (SYSTEM_FOLDER)`, parseFolder)
    .hook('preAction', () => {
      const { folder } = command.opts<{ folder?: string }>()
      if (folder !== undefined) process.env.SYSTEM_FOLDER = folder
    })
}

function parseFolder(path: string): string {
  if (path !== '') return path
  throw new InvalidArgumentError('give the path of a folder.')
}

/**
 * Returns the folder of the node that a command acts on. Errors: Exit (configuration) if no folder is set, or if the
 * folder does not exist and `mayBeNew` is false, so that a mistyped name does not create a folder.
 */
export function nodeFolder(settings: Settings, { mayBeNew }: { mayBeNew: boolean }): string {
  const { SYSTEM_FOLDER: folder } = settings
  if (folder === null) {
    throw new Exit(
      EXIT.configuration,
      'set the folder of the node with --folder or SYSTEM_FOLDER; a node without a folder stores nothing',
    )
  }
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found?.isDirectory() ?? mayBeNew) return folder
  throw new Exit(EXIT.configuration, `SYSTEM_FOLDER: there is no folder ${folder}`)
}

/**
 * Returns the store of the node in `folder`: STORE, or the folder. Errors: Exit (configuration) if STORE is set, but the
 * user has typed the name of a folder with a store.
 */
export function chooseStore(
  { STORE }: Settings,
  folder: string,
  flags: FolderFlags,
): StoreLocation {
  if (STORE === null) return folder
  if (flags.folder === undefined || !existsSync(join(folder, 'ledger.db'))) return STORE
  const message = `${folder} has a store, but STORE is set: unset STORE, or set SYSTEM_FOLDER instead of --folder to use the database`
  throw new Exit(EXIT.configuration, message)
}

/**
 * Returns SYSTEM_FOLDER, which has the key and the signed head, if `url` is the value of STORE; otherwise null. Warns if
 * STORE is another URL, because it may lead to the same database.
 */
function findDatabaseFolder(url: string): string | null {
  const { STORE, SYSTEM_FOLDER } = readSettings(process.env)
  if (url === STORE) return SYSTEM_FOLDER
  if (STORE !== null)
    warn('the database is not compared with the signed head, because STORE is another URL')
  return null
}

/** Returns the name of the setting that caused an error when the store was opened. */
export function findSettingName({ STORE }: Settings, { code }: CodedError<string>): string {
  return STORE !== null && /^(STORE_|OUTCOME_)/.test(code) ? 'STORE' : 'SYSTEM_FOLDER'
}

/** Throws Exit (usage) unless `folder` is an existing folder. */
export function requireSourceFolder(folder: string): void {
  if (existsSync(folder) && statSync(folder).isDirectory()) return
  throw missingSource('folder', folder)
}

/** Returns the Exit for a source that does not exist. Its message omits a URL, which may have a password. */
export function missingSource(kind: string, path: string): Exit {
  const name = path.includes('://')
    ? 'with this name; the URL of a database starts with postgres://'
    : path
  return new Exit(EXIT.usage, `there is no ${kind} ${name}`)
}

/**
 * Reads the key and the signed head of a folder, which show whether the chain was rolled back or replaced by another
 * valid chain. Must be called before the store is opened. Errors: Exit (configuration) if the files cannot be read.
 */
export async function requireSigningFiles(folder: string): Promise<SigningFiles> {
  const { readSigningFiles } = await import('../../ledger/core.ts')
  try {
    return readSigningFiles(folder)
  } catch (error) {
    throw findSystemExit(error, EXIT.configuration) ?? error
  }
}

/**
 * Returns the folder of the store at `location`, a folder or a database, with its key and signed head; null for a
 * database that is not STORE. Errors: STORE_NOT_FOUND for a folder without a store; Exit (configuration).
 */
export async function findSigning(location: StoreLocation) {
  const { isDatabaseUrl, requireStoreFile, toStorePath } = await import('../../storage/index.ts')
  if (!isDatabaseUrl(location)) requireStoreFile(toStorePath(location))
  const folder = isDatabaseUrl(location) ? findDatabaseFolder(location) : location
  return { folder, signing: folder === null ? null : await requireSigningFiles(folder) }
}

/** Runs `work`, which reads a store. Errors: Exit (finding) if the store is damaged; all other errors of `work`. */
export async function onStore<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    // Imported only after an error, because most commands do not need the module otherwise.
    const { isDamage } = await import('../../storage/index.ts')
    if (!isDamage(error)) throw error
    const message = `the store cannot be read: ${error.message}`
    throw new Exit(EXIT.finding, message, { cause: error })
  }
}

import { join } from 'node:path'
import { fileExists } from '../../storage/index.ts'

/** In a data folder: a folder for each chain of another node that is kept here. */
export const MIRRORS_FOLDER = 'mirrors'
/** In the folder of a mirror: the key of its chain. */
export const VKEY_FILE = 'vkey'

/** The folder of the mirror of the chain of `serverId`. */
export function mirrorFolder(folder: string, serverId: number): string {
  return join(folder, MIRRORS_FOLDER, `${serverId}`)
}

/** Whether `folder` is that of a mirror, whatever the data folder is that it lies in. */
export function isMirrorFolder(folder: string): boolean {
  return fileExists(join(folder, VKEY_FILE))
}

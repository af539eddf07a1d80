/** The key of a node: in the folder of every node that can go on with its chain. */
export const KEY_FILE = 'node.key'

/** The head that a node signed last: of every node that was started once, and in no backup. */
export const SIGNED_HEAD_FILE = 'signed-head'

/** A file that a node keeps in its folder beside the store. */
interface DataFile {
  readonly name: string
  /** Whether it holds a private key: who has it can act as the node. */
  readonly isKey: boolean
}

/**
 * What a backup takes from a data folder beside the store; docs/operations.md has the table of all
 * files. What a node makes anew, and what must not come back with an old copy, is left out.
 */
export const DATA_FILES: readonly DataFile[] = [
  { name: KEY_FILE, isKey: true },
  { name: 'token-keys.json', isKey: true },
  { name: 'token-revocations.json', isKey: false },
  { name: 'peers.json', isKey: false },
  { name: 'evidence.json', isKey: false },
  { name: 'users.json', isKey: false },
  { name: 'rates.json', isKey: false },
]

/**
 * Folders of files that are called after the SHA-256 of their content, and the folder in each that is
 * there while more may be arriving.
 */
export const CONTENT_FOLDERS = [{ name: 'attachments', incoming: 'incoming' }] as const

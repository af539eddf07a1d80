import { NetworkError } from '../errors.ts'

/** The files that make a network, by their paths in its directory, sorted. */
export type NetworkFiles = ReadonlyMap<string, Buffer>

/** A network as it was found: its files, and the archive that they came in, if they did. */
export interface NetworkSource {
  readonly files: NetworkFiles
  readonly packed: Buffer | null
}

/** Bytes of all files of a network together. */
export const NETWORK_BYTES_MAX = 10 * 1024 * 1024
/** Files of a network. */
export const NETWORK_FILES_MAX = 500
/** Characters of a message: the paths of an archive may be of any length. */
const MESSAGE_LENGTH_MAX = 1_000

const SINGLE = ['package.json', 'README.md', 'permissions.acl', 'queries.qry']

/** Whether the file at `path` belongs to a network; all others in its directory are passed over. */
export function isNetworkFile(path: string): boolean {
  if (SINGLE.includes(path)) return true
  if (path.startsWith('models/') || path.startsWith('node_modules/')) return path.endsWith('.cto')
  return path.startsWith('lib/') && path.endsWith('.js')
}

/** Whether `path` stays in the directory that it starts from. */
function isPlainPath(path: string): boolean {
  if (path === '' || path.length > 512 || /[\\\0:]/.test(path)) return false
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
}

/** Gathers files within the bounds of a network. */
export class FileSet {
  readonly #files = new Map<string, Buffer>()
  #bytes = 0

  /** Errors: NETWORK_UNREADABLE. */
  add(path: string, content: Buffer): void {
    if (!isPlainPath(path)) throw unreadable(`the path ${JSON.stringify(path)} is not a plain one`)
    if (this.#files.has(path)) throw unreadable(`${path} is there twice`)
    this.#bytes += content.length
    this.#files.set(path, content)
    if (this.#bytes > NETWORK_BYTES_MAX) {
      throw unreadable(`a network has at most ${NETWORK_BYTES_MAX} bytes`)
    }
    if (this.#files.size > NETWORK_FILES_MAX) {
      throw unreadable(`a network has at most ${NETWORK_FILES_MAX} files`)
    }
  }

  /** What was gathered. Errors: NETWORK_UNREADABLE without a `package.json`. */
  files(): NetworkFiles {
    if (!this.#files.has('package.json')) throw unreadable('there is no package.json')
    return new Map([...this.#files].sort(([one], [other]) => (one < other ? -1 : 1)))
  }
}

/** A refusal of files as a whole. */
export function unreadable(message: string, cause?: unknown): NetworkError {
  return new NetworkError('NETWORK_UNREADABLE', message.slice(0, MESSAGE_LENGTH_MAX), { cause })
}

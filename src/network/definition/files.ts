import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib'
import { parseJson } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'

/** The files of a network. Keys: sorted paths, relative to the network's directory. */
export type NetworkFiles = ReadonlyMap<string, Buffer>

/** The files of a network, and the archive from which they were read, if any. */
export interface NetworkSource {
  readonly files: NetworkFiles
  readonly packed: Buffer | null
}

/** Maximum total size of the files of a network. */
const NETWORK_BYTES_MAX = 10 * 1024 * 1024
const NETWORK_FILES_MAX = 500
/** Maximum characters of an error message. Longer messages, which quote a long path, are truncated. */
const MESSAGE_LENGTH_MAX = 1_000

const SINGLE = ['package.json', 'README.md', 'permissions.acl', 'queries.qry']

/** Whether the file at `path` is a part of a network. Other files are ignored. */
function isNetworkFile(path: string): boolean {
  if (SINGLE.includes(path)) return true
  if (path.startsWith('models/') || path.startsWith('node_modules/')) return path.endsWith('.cto')
  return path.startsWith('lib/') && path.endsWith('.js')
}

/** Whether `path` is relative and does not leave its directory. */
function isPlainPath(path: string): boolean {
  if (path === '' || path.length > 512 || /[\\\0:]/.test(path)) return false
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
}

/** Collects the files of a network and enforces the limits. */
class FileSet {
  readonly #files = new Map<string, Buffer>()
  #bytes = 0

  /** Adds a file. Errors: NETWORK_UNREADABLE if the path is invalid or a limit is exceeded. */
  add(path: string, content: Buffer): void {
    if (!isPlainPath(path)) throw unreadable(`invalid path ${JSON.stringify(path)}`)
    if (this.#files.has(path)) throw unreadable(`duplicate file ${path}`)
    this.#bytes += content.length
    this.#files.set(path, content)
    if (this.#bytes > NETWORK_BYTES_MAX) {
      throw unreadable(
        `the files of the network together are larger than ${NETWORK_BYTES_MAX} bytes`,
      )
    }
    if (this.#files.size > NETWORK_FILES_MAX) {
      throw unreadable(`the network has more than ${NETWORK_FILES_MAX} files`)
    }
  }

  /** Returns all files. Errors: NETWORK_UNREADABLE if there is no `package.json`. */
  files(): NetworkFiles {
    if (!this.#files.has('package.json')) throw unreadable('there is no package.json')
    return new Map([...this.#files].sort(([one], [other]) => (one < other ? -1 : 1)))
  }
}

function unreadable(message: string, cause?: unknown): NetworkError {
  return new NetworkError('NETWORK_UNREADABLE', message.slice(0, MESSAGE_LENGTH_MAX), { cause })
}

// A `.bna` is a zip archive (APPNOTE.TXT 6.3.10) with the files of a network at its root.

const LOCAL = 0x04034b50
const CENTRAL = 0x02014b50
const END = 0x06054b50
const LOCAL_BYTES = 30
const CENTRAL_BYTES = 46
const END_BYTES = 22
const COMMENT_BYTES_MAX = 0xffff
const STORED = 0
const DEFLATED = 8
const UTF8 = 1 << 11
const ENCRYPTED = 1
/** Modification date of every file: 1980-01-01, so that equal files give equal archives. */
const DOS_DATE = (1 << 5) | 1
/** Maximum number of files in an archive, including ignored files. */
const MEMBERS_MAX = 4 * NETWORK_FILES_MAX
const SYMBOLIC_LINK = 0o120000
const FILE_TYPE = 0o170000

/** Returns the files in a `.bna`. Errors: NETWORK_UNREADABLE. */
export function readArchive(archive: Buffer): NetworkFiles {
  try {
    return unpackFiles(archive)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw unreadable('the archive is incomplete', error)
  }
}

function unpackFiles(archive: Buffer): NetworkFiles {
  const end = findEndRecord(archive)
  const count = archive.readUInt16LE(end + 10)
  if (count > MEMBERS_MAX) throw unreadable(`the archive lists more than ${MEMBERS_MAX} files`)
  const set = new FileSet()
  let at = archive.readUInt32LE(end + 16)
  for (let n = 0; n < count; n += 1) {
    if (archive.readUInt32LE(at) !== CENTRAL) throw unreadable('the archive is damaged')
    const nameBytes = archive.readUInt16LE(at + 28)
    const name = archive.subarray(at + CENTRAL_BYTES, at + CENTRAL_BYTES + nameBytes).toString()
    addMember(archive, at, name, set)
    at += CENTRAL_BYTES + nameBytes + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  return set.files()
}

function findEndRecord(archive: Buffer): number {
  const from = Math.max(0, archive.length - END_BYTES - COMMENT_BYTES_MAX)
  for (let at = archive.length - END_BYTES; at >= from; at -= 1) {
    if (archive.readUInt32LE(at) === END) return at
  }
  throw unreadable('not a directory or a .bna archive of a network')
}

/** Adds the file whose entry in the central directory starts at `at`. */
function addMember(archive: Buffer, at: number, name: string, set: FileSet): void {
  if (name.endsWith('/')) return
  const mode = archive.readUInt32LE(at + 38) >>> 16
  if ((mode & FILE_TYPE) === SYMBOLIC_LINK)
    throw unreadable(`${name} is a symbolic link; use a regular file or folder`)
  // Rejects the archive even if the file would be ignored, because such a path indicates an attack.
  if (/(^|[\\/])\.\.([\\/]|$)|^[\\/]|^[a-z]:/i.test(name)) {
    throw unreadable(`the path ${JSON.stringify(name)} points outside of the archive`)
  }
  if (!isNetworkFile(name)) return
  const flags = archive.readUInt16LE(at + 8)
  if ((flags & ENCRYPTED) !== 0) throw unreadable(`${name} is encrypted`)
  const method = archive.readUInt16LE(at + 10)
  const packedBytes = archive.readUInt32LE(at + 20)
  const plainBytes = archive.readUInt32LE(at + 24)
  if (plainBytes > NETWORK_BYTES_MAX)
    throw unreadable(`${name} is larger than ${NETWORK_BYTES_MAX} bytes`)
  const local = archive.readUInt32LE(at + 42)
  if (archive.readUInt32LE(local) !== LOCAL) throw unreadable('the archive is damaged')
  const start =
    local + LOCAL_BYTES + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
  const content = unpack(archive.subarray(start, start + packedBytes), method, plainBytes, name)
  if (content.length !== plainBytes || crc32(content) !== archive.readUInt32LE(at + 16)) {
    throw unreadable(`${name} is damaged`)
  }
  set.add(name, content)
}

function unpack(packed: Buffer, method: number, plainBytes: number, name: string): Buffer {
  if (method === STORED) return Buffer.from(packed)
  if (method !== DEFLATED) throw unreadable(`${name} has an unsupported compression method`)
  try {
    // The announced size limits the output, so that a decompression bomb cannot exhaust the memory.
    return inflateRawSync(packed, { maxOutputLength: Math.max(1, plainBytes) })
  } catch (error) {
    throw unreadable(`${name} is damaged`, error)
  }
}

/** Returns the `.bna` of `files`. Equal files give equal archives if the zlib version is the same. */
export function writeArchive(files: NetworkFiles): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, content] of [...files].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const name = Buffer.from(path)
    const packed = deflateRawSync(content, { level: 9 })
    const common = commonHeader(content, packed, name)
    const local = Buffer.alloc(LOCAL_BYTES)
    local.writeUInt32LE(LOCAL, 0)
    common.copy(local, 4)
    const central = Buffer.alloc(CENTRAL_BYTES)
    central.writeUInt32LE(CENTRAL, 0)
    central.writeUInt16LE(20, 4)
    common.copy(central, 6)
    central.writeUInt32LE(offset, 42)
    parts.push(local, name, packed)
    directory.push(central, name)
    offset += LOCAL_BYTES + name.length + packed.length
  }
  const central = Buffer.concat(directory)
  const end = Buffer.alloc(END_BYTES)
  end.writeUInt32LE(END, 0)
  end.writeUInt16LE(files.size, 8)
  end.writeUInt16LE(files.size, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, central, end])
}

/** Returns the 26 bytes that the local header and the central directory have in common. */
function commonHeader(content: Buffer, packed: Buffer, name: Buffer): Buffer {
  const header = Buffer.alloc(26)
  header.writeUInt16LE(20, 0)
  header.writeUInt16LE(UTF8, 2)
  header.writeUInt16LE(DEFLATED, 4)
  header.writeUInt16LE(0, 6)
  header.writeUInt16LE(DOS_DATE, 8)
  header.writeUInt32LE(crc32(content), 10)
  header.writeUInt32LE(packed.length, 14)
  header.writeUInt32LE(content.length, 18)
  header.writeUInt16LE(name.length, 22)
  return header
}

/** Maximum number of directory entries to read when a network is read from a directory. */
const ENTRIES_MAX = 20_000
/** Folders that can contain files of a network. */
const FOLDERS = ['models', 'lib', 'node_modules']

/**
 * Reads the network in the directory or `.bna` archive at `path`. Errors: NETWORK_UNREADABLE; the message does not
 * name `path`.
 */
export function readNetwork(path: string): NetworkSource {
  try {
    const stat = lstatSync(path)
    if (stat.isSymbolicLink())
      throw unreadable('this is a symbolic link; use a regular file or folder')
    if (stat.isDirectory()) return { files: readDirectory(path), packed: null }
    if (stat.size > 2 * NETWORK_BYTES_MAX) throw unreadable('the file is too large for a network')
    const packed = readFileSync(path)
    return { files: readArchive(packed), packed }
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) {
      throw unreadable(`cannot be read: ${error.message}`, error)
    }
    throw error
  }
}

function readDirectory(root: string): NetworkFiles {
  const set = new FileSet()
  const dependencies = readDependencies(join(root, 'package.json'))
  let seen = 0
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      seen += 1
      if (seen > ENTRIES_MAX) throw unreadable('the directory has too many files to be a network')
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const isWanted = isNetworkFile(path)
      if (entry.isDirectory()) {
        if (canContainFiles(path, dependencies)) walk(path)
      } else if (entry.isSymbolicLink() && (isWanted || FOLDERS.includes(path))) {
        // Rejects the link, because following it could record any file of this computer in the ledger.
        throw unreadable(`${path} is a symbolic link; use a regular file or folder`)
      } else if (entry.isFile() && isWanted) {
        const file = join(root, path)
        if (lstatSync(file).size > NETWORK_BYTES_MAX)
          throw unreadable(`${path} is larger than ${NETWORK_BYTES_MAX} bytes`)
        set.add(path, readFileSync(file))
      }
    }
  }
  walk('')
  return set.files()
}

/** Whether to read the folder `path`. In `node_modules`, only the network's direct dependencies are read. */
function canContainFiles(path: string, dependencies: readonly string[]): boolean {
  const [top = '', ...rest] = path.split('/')
  if (!FOLDERS.includes(top)) return false
  if (top !== 'node_modules' || rest.length === 0) return true
  const relative = rest.join('/')
  return dependencies.some(
    (name) =>
      relative === name || relative.startsWith(`${name}/`) || name.startsWith(`${relative}/`),
  )
}

function readDependencies(path: string): string[] {
  try {
    const { dependencies }: { dependencies?: object } = parseJson(readFileSync(path, 'utf8'))
    return Object.keys(dependencies ?? {})
  } catch {
    // The file is missing or invalid, which is reported elsewhere (`FileSet.files`, `readPackage`).
    return []
  }
}

import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib'
import {
  FileSet,
  isNetworkFile,
  NETWORK_BYTES_MAX,
  NETWORK_FILES_MAX,
  type NetworkFiles,
  unreadable,
} from './files.ts'

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
/** 1980-01-01: equal files give equal bytes, whenever they are packed. */
const DOS_DATE = (1 << 5) | 1
/** Members that an archive may list, those that are passed over included. */
const MEMBERS_MAX = 4 * NETWORK_FILES_MAX
const SYMBOLIC_LINK = 0o120000
const FILE_TYPE = 0o170000

/** The network in a `.bna`. Errors: NETWORK_UNREADABLE. */
export function readArchive(archive: Buffer): NetworkFiles {
  try {
    return filesIn(archive)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw unreadable('the archive ends too early', error)
  }
}

function filesIn(archive: Buffer): NetworkFiles {
  const end = endOf(archive)
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

function endOf(archive: Buffer): number {
  const from = Math.max(0, archive.length - END_BYTES - COMMENT_BYTES_MAX)
  for (let at = archive.length - END_BYTES; at >= from; at -= 1) {
    if (archive.readUInt32LE(at) === END) return at
  }
  throw unreadable('this is neither a directory nor an archive of a network')
}

/** Adds the member whose entry in the central directory is at `at`. */
function addMember(archive: Buffer, at: number, name: string, set: FileSet): void {
  if (name.endsWith('/')) return
  const mode = archive.readUInt32LE(at + 38) >>> 16
  if ((mode & FILE_TYPE) === SYMBOLIC_LINK) throw unreadable(`${name} is a symbolic link`)
  // Refused also where it would be passed over: such an archive was made to harm.
  if (/(^|[\\/])\.\.([\\/]|$)|^[\\/]|^[a-z]:/i.test(name)) {
    throw unreadable(`the path ${JSON.stringify(name)} leaves the archive`)
  }
  if (!isNetworkFile(name)) return
  const flags = archive.readUInt16LE(at + 8)
  if ((flags & ENCRYPTED) !== 0) throw unreadable(`${name} is encrypted`)
  const method = archive.readUInt16LE(at + 10)
  const packedBytes = archive.readUInt32LE(at + 20)
  const plainBytes = archive.readUInt32LE(at + 24)
  if (plainBytes > NETWORK_BYTES_MAX) throw unreadable(`${name} is too large`)
  const local = archive.readUInt32LE(at + 42)
  if (archive.readUInt32LE(local) !== LOCAL) throw unreadable('the archive is damaged')
  const start =
    local + LOCAL_BYTES + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
  const content = unpacked(archive.subarray(start, start + packedBytes), method, plainBytes, name)
  if (content.length !== plainBytes || crc32(content) !== archive.readUInt32LE(at + 16)) {
    throw unreadable(`${name} is damaged`)
  }
  set.add(name, content)
}

function unpacked(packed: Buffer, method: number, plainBytes: number, name: string): Buffer {
  if (method === STORED) return Buffer.from(packed)
  if (method !== DEFLATED) throw unreadable(`${name} is packed in an unknown way`)
  try {
    // The bound is the size that was announced: a bomb stops there.
    return inflateRawSync(packed, { maxOutputLength: Math.max(1, plainBytes) })
  } catch (error) {
    throw unreadable(`${name} is damaged`, error)
  }
}

/** The `.bna` of `files`: equal files give equal bytes, as long as the compression is the same. */
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

/** The 26 bytes that local header and central directory share. */
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

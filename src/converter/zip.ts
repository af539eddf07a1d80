import assert from 'node:assert/strict'
import { constants, crc32, deflateRawSync } from 'node:zlib'

/** A file in the archive. */
interface DirectoryEntry {
  readonly name: Buffer
  readonly offset: number
  readonly crc: number
  readonly packedBytes: number
  readonly plainBytes: number
}

/** Modification date of all files, 1980-01-01, so that equal pictures give equal archives. */
const DOS_DATE = (1 << 5) | 1
const VERSION = 20
/** Flag of a file whose sizes and checksum follow after the data. */
const FLAG_DESCRIPTOR = 1 << 3
const DEFLATE = 8
const UINT32_MAX = 0xffff_ffff

/**
 * Writes a zip archive of less than 4 GiB as a sequence of chunks.
 *
 * Each chunk is compressed by a synchronous call with a new dictionary, so chunks should be several hundred kilobytes
 * long. fflate 0.8.3 is not used, because it is slower (0.84 of this speed): it computes checksums in JavaScript.
 * Source: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.9, 4.3.12 and 4.3.16.
 */
export class ZipWriter {
  readonly #level: number
  readonly #entries: DirectoryEntry[] = []
  #offset = 0

  /** `level` is the compression level of zlib, 1 (fast) to 9 (small). */
  constructor(level: number) {
    this.#level = level
  }

  /** Adds a file, and yields its part of the archive. `chunks` may reuse the buffer of a chunk for the next chunk. */
  *part(name: string, chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
    const nameBytes = Buffer.from(name, 'ascii')
    const offset = this.#offset
    yield this.#count(localHeader(nameBytes))
    const start = this.#offset
    let crc = 0
    let plainBytes = 0
    for (const chunk of chunks) {
      crc = crc32(chunk, crc)
      plainBytes += chunk.byteLength
      yield this.#count(this.#deflate(chunk, constants.Z_SYNC_FLUSH))
    }
    yield this.#count(this.#deflate(new Uint8Array(0), constants.Z_FINISH))
    const packedBytes = this.#offset - start
    assert(plainBytes <= UINT32_MAX)
    yield this.#count(formatDescriptor(crc, packedBytes, plainBytes))
    this.#entries.push({ name: nameBytes, offset, crc, packedBytes, plainBytes })
  }

  /** Yields the central directory, the last part of the archive. */
  *end(): Generator<Uint8Array> {
    const offset = this.#offset
    for (const entry of this.#entries) yield this.#count(directoryHeader(entry))
    const bytes = this.#offset - offset
    const tail = Buffer.alloc(22)
    tail.writeUInt32LE(0x0605_4b50, 0)
    tail.writeUInt16LE(this.#entries.length, 8)
    tail.writeUInt16LE(this.#entries.length, 10)
    tail.writeUInt32LE(bytes, 12)
    tail.writeUInt32LE(offset, 16)
    yield this.#count(tail)
  }

  #deflate(chunk: Uint8Array, finishFlush: number): Buffer {
    // `chunkSize` is large enough for most results, because zlib joins several smaller buffers by copying.
    const chunkSize = Math.max(256, chunk.byteLength >> 2)
    return deflateRawSync(chunk, { level: this.#level, finishFlush, chunkSize })
  }

  #count<T extends Uint8Array>(bytes: T): T {
    this.#offset += bytes.byteLength
    assert(this.#offset <= UINT32_MAX)
    return bytes
  }
}

function localHeader(name: Buffer): Buffer {
  const header = Buffer.alloc(30 + name.length)
  header.writeUInt32LE(0x0403_4b50, 0)
  header.writeUInt16LE(VERSION, 4)
  header.writeUInt16LE(FLAG_DESCRIPTOR, 6)
  header.writeUInt16LE(DEFLATE, 8)
  header.writeUInt16LE(DOS_DATE, 12)
  header.writeUInt16LE(name.length, 26)
  name.copy(header, 30)
  return header
}

function formatDescriptor(crc: number, packedBytes: number, plainBytes: number): Buffer {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt32LE(0x0807_4b50, 0)
  bytes.writeUInt32LE(crc, 4)
  bytes.writeUInt32LE(packedBytes, 8)
  bytes.writeUInt32LE(plainBytes, 12)
  return bytes
}

function directoryHeader(entry: DirectoryEntry): Buffer {
  const { name, offset, crc, packedBytes, plainBytes } = entry
  const header = Buffer.alloc(46 + name.length)
  header.writeUInt32LE(0x0201_4b50, 0)
  header.writeUInt16LE(VERSION, 4)
  header.writeUInt16LE(VERSION, 6)
  header.writeUInt16LE(FLAG_DESCRIPTOR, 8)
  header.writeUInt16LE(DEFLATE, 10)
  header.writeUInt16LE(DOS_DATE, 14)
  header.writeUInt32LE(crc, 16)
  header.writeUInt32LE(packedBytes, 20)
  header.writeUInt32LE(plainBytes, 24)
  header.writeUInt16LE(name.length, 28)
  header.writeUInt32LE(offset, 42)
  name.copy(header, 46)
  return header
}

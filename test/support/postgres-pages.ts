// Values in the files of PostgreSQL that a search of the bytes does not find: compressed by pglz, or divided into the rows
// of a TOAST table. Also finds rows that no statement sees any more.

const WAL_PAGE = 8_192
const WAL_HEADER = 24
const WAL_LONG_HEADER = 40
/** Bit of `xlp_info`: the first page of a segment, whose header is longer. */
const LONG_HEADER = 2
/** Header of a row without nulls: its length, and the distance of this length from the end of the header. */
const ROW_HEADER = 24
const CHUNK_COLUMNS = 3
const CHUNK_MAX = 1_996
/** Bodies of blocks have at most 16 MiB. */
const VALUE_MAX = 32 * 1024 * 1024
const scratch = Buffer.alloc(VALUE_MAX)
/** Shorter values are not compressed, so most shorter results are of bytes that are no value. */
const VALUE_MIN = 32
/** A row is at most a page. */
const INLINE_MAX = 8_160

/** Returns the records of a segment of the write-ahead log without the headers of the pages, which cut records. */
export function walRecords(segment: Buffer): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at + WAL_PAGE <= segment.length; at += WAL_PAGE) {
    const isLong = (segment.readUInt16LE(at + 2) & LONG_HEADER) !== 0
    parts.push(segment.subarray(at + (isLong ? WAL_LONG_HEADER : WAL_HEADER), at + WAL_PAGE))
  }
  return Buffer.concat(parts)
}

/** Yields the compressed and the divided values in the bytes of a table, or in the records of the write-ahead log. */
export function* unpackedValues(bytes: Buffer): Generator<Buffer> {
  const divided = new Map<number, Map<number, Buffer>>()
  for (let at = nextValue(bytes, ROW_HEADER); at !== -1; at = nextValue(bytes, at + 1)) {
    if (((bytes[at] ?? 0) & 3) === 0) addChunk(divided, bytes, at)
    else {
      const end = at + (bytes.readUInt32LE(at) >>> 2)
      if (end - at > 8 && end - at <= INLINE_MAX && end <= bytes.length) {
        const value = unpack(bytes.subarray(at + 4, end))
        if (value.length >= VALUE_MIN) yield value
      }
    }
  }
  for (const chunks of divided.values()) {
    const parts: Buffer[] = []
    for (let part = chunks.get(0); part !== undefined; part = chunks.get(parts.length)) {
      parts.push(part)
    }
    const value = Buffer.concat(parts)
    yield value
    yield unpack(value)
  }
}

/**
 * Returns the next position from `from` on at which a value can start, or -1. The two low bits of its length are 2 if it is
 * compressed; then the two high bytes are 0, because it is in a page. They are 0 if it is not compressed.
 */
function nextValue(bytes: Buffer, from: number): number {
  const end = bytes.length - 8
  for (let at = from; at <= end; at += 1) {
    const kind = (bytes[at] ?? 0) & 3
    if (kind === 2 && bytes[at + 2] === 0 && bytes[at + 3] === 0) return at
    if (kind === 0 && bytes[at - 10] === ROW_HEADER) return at
  }
  return -1
}

/** Adds the row of a TOAST table whose third column is at `at`. Its columns are a value id, a number and the bytes. */
function addChunk(divided: Map<number, Map<number, Buffer>>, bytes: Buffer, at: number): void {
  const length = (bytes.readUInt32LE(at) >>> 2) - 4
  if (length <= 0 || length > CHUNK_MAX || at < 14) return
  if ((bytes.readUInt16LE(at - 14) & 0x7ff) !== CHUNK_COLUMNS) return
  const [id, number] = [bytes.readUInt32LE(at - 8), bytes.readUInt32LE(at - 4)]
  const chunks = divided.get(id) ?? new Map()
  divided.set(id, chunks.set(number, bytes.subarray(at + 4, at + 4 + length)))
}

/**
 * Returns the content of a value compressed by pglz, after its length in 4 bytes, as far as it can be decoded. Source:
 * src/common/pg_lzcompress.c of PostgreSQL.
 */
function unpack(value: Buffer): Buffer {
  const size = value.length < 5 ? 0 : value.readUInt32LE(0)
  if (size <= value.length - 4 || size > VALUE_MAX) return Buffer.of()
  const out = scratch
  let [at, end] = [4, 0]
  while (at < value.length && end < size) {
    let control = value[at++] ?? 0
    for (let bit = 0; bit < 8 && at < value.length && end < size; bit += 1, control >>= 1) {
      if ((control & 1) === 0) {
        out[end++] = value[at++] ?? 0
        continue
      }
      const [low = 0, high = 0] = [value[at], value[at + 1]]
      const distance = ((low & 0xf0) << 4) | high
      at += 2
      let length = (low & 0x0f) + 3
      if (length === 18) length += value[at++] ?? 0
      if (distance === 0 || distance > end) return Buffer.from(out.subarray(0, end))
      for (; length > 0 && end < size; length -= 1, end += 1) out[end] = out[end - distance] ?? 0
    }
  }
  return Buffer.from(out.subarray(0, end))
}

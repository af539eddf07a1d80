import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { ENTRIES_BYTES_MAX, ENTRIES_MAX } from '../../chain/index.ts'
import { StoreError } from '../port/errors.ts'

/** Characters from which on a body is compressed: those of loads, because the bodies of concurrent writes would take time on the write path. */
const PACKED_MIN = 65_536

/** Returns the entries of a block as one text, one per line, because canonical JSON has no line feed. */
export function formatBody(entries: readonly string[]): string {
  return entries.join('\n')
}

/** Returns the body in the form in which SQLite stores it: the text, or the text compressed by Zstandard (RFC 8878). */
export function packBody(entries: readonly string[]): string | Uint8Array {
  const body = formatBody(entries)
  if (body.length < PACKED_MIN) return body
  const packed = zstdCompressSync(body)
  return packed.length < body.length ? packed : body
}

/** Returns the entries of a stored body, compressed or not. Errors: STORE_DAMAGED. */
export function parseBody(stored: unknown): string[] {
  if (typeof stored === 'string') return stored.split('\n')
  try {
    if (!(stored instanceof Uint8Array)) throw new TypeError('it is neither a text nor a BLOB')
    // The bound keeps a changed file from filling the memory.
    const maxOutputLength = ENTRIES_BYTES_MAX + ENTRIES_MAX
    return zstdDecompressSync(stored, { maxOutputLength }).toString().split('\n')
  } catch (cause) {
    throw new StoreError('STORE_DAMAGED', 'column body has an invalid value', { cause })
  }
}

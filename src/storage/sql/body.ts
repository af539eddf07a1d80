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
  // The bounds keep a changed file from filling the memory. A block with more entries than the maximum is refused later.
  const lines = (body: string) => body.split('\n', ENTRIES_MAX + 1)
  if (typeof stored === 'string') return lines(stored)
  try {
    if (!(stored instanceof Uint8Array)) throw new TypeError('it is neither a text nor a BLOB')
    const maxOutputLength = ENTRIES_BYTES_MAX + ENTRIES_MAX
    return lines(zstdDecompressSync(stored, { maxOutputLength }).toString())
  } catch (cause) {
    throw new StoreError('STORE_DAMAGED', 'column body has an invalid value', { cause })
  }
}

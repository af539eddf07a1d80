import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'

const BLOCK_BYTES = 1024 * 1024

/** The SHA-256 of the first `length` bytes of `file` in hex, or of all when there are fewer. */
export async function sha256Of(file: FileHandle, length: number): Promise<string> {
  const hash = createHash('sha256')
  const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, length))
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, length - at), at)
    if (bytesRead === 0) break
    hash.update(block.subarray(0, bytesRead))
    at += bytesRead
  }
  return hash.digest('hex')
}

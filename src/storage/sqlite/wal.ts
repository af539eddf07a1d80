import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'

/** How long the log's file is made before it is needed: commits that extend it wait twice as long. */
const LOG_BYTES = 32 * 1024 * 1024
/** So much at a time: what stays in the processor's cache is written six times as fast as all at once. */
const PIECE_BYTES = 512 * 1024

/**
 * Fills the log's file with zeros up to LOG_BYTES. Bringing written-over bytes to the disk costs half
 * of what new length does, because the file system has nothing of its own to write. Zeros are not a
 * frame, so whoever recovers the log after a crash stops where its frames end, as always.
 *
 * Where there is no room for all of it the file stays as it was: a node must not use up the rest.
 */
export function lengthenLog(path: string): void {
  const file = openSync(path, 'r+')
  try {
    const before = fstatSync(file).size
    if (before >= LOG_BYTES) return
    const zeros = Buffer.alloc(PIECE_BYTES)
    try {
      for (let size = before; size < LOG_BYTES; ) {
        size += writeSync(file, zeros, 0, Math.min(PIECE_BYTES, LOG_BYTES - size), size)
      }
      fsyncSync(file)
    } catch (error) {
      ftruncateSync(file, before)
      throw error
    }
  } finally {
    closeSync(file)
  }
}

/**
 * Makes the log that an earlier process left durable: every page is written again, then synced. Does
 * nothing without a log.
 *
 * After a failed sync Linux takes the failed pages for clean. They can be read, the next sync reports
 * success, and they are not on the disk: a recovery would accept their frames, and what is appended
 * behind them is lost with them in a power cut. Writing a page again makes it dirty, so that the sync
 * covers it. This is done in place: it needs no room on a full disk, and readers of the file see the
 * same bytes throughout. A power cut in the middle leaves each page as it was or as it will be, and
 * pages of acknowledged frames are the same in both.
 */
export function rewriteWal(path: string): void {
  let file: number
  try {
    file = openSync(path, 'r+')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return
    throw error
  }
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    for (let at = 0; ; ) {
      const length = readSync(file, piece, 0, PIECE_BYTES, at)
      if (length === 0) break
      for (let done = 0; done < length; ) {
        done += writeSync(file, piece, done, length - done, at + done)
      }
      at += length
    }
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

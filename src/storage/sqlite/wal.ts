import { closeSync, fsyncSync, openSync, readSync, statfsSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { errorCode } from '../../base/errors.ts'
import type { Block } from '../../chain/index.ts'
import { FREE_BYTES_MIN, isLow } from '../location/folder.ts'
import { diskFull, StoreError } from '../port/errors.ts'

const CHUNK_BYTES = 512 * 1024

/**
 * Makes the write-ahead log of an earlier process durable: writes every page again, and then syncs the file. Does
 * nothing if there is no WAL.
 *
 * After a failed fsync, Linux marks the failed pages as clean. These pages can be read and the next fsync succeeds, but
 * the pages are not on disk. So recovery would accept their frames, and a power cut would lose every frame appended
 * later. Rewriting a page makes it dirty again, so fsync covers the page. Rewriting in place needs no space on a full
 * disk, and concurrent readers see the same bytes. A power cut during the rewriting leaves each page in its old or new
 * state, which are equal for acknowledged frames.
 */
export function rewriteWal(path: string): void {
  let file: number
  try {
    file = openSync(path, 'r+')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return
    throw error
  }
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    for (let at = 0; ; ) {
      const length = readSync(file, chunk, 0, CHUNK_BYTES, at)
      if (length === 0) break
      for (let done = 0; done < length; ) {
        done += writeSync(file, chunk, done, length - done, at + done)
      }
      at += length
    }
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

// The WAL index (`ledger.db-shm`) grows in segments (SQLite, "WAL-mode file format", section 2).
const SEGMENT_BYTES = 32_768
const SEGMENT_FRAMES = 4_096
/** Number of frames whose space the header takes in the first segment. */
const HEADER_FRAMES = 34

/** Maximum frames written by one maintenance transaction. */
export const MAINTENANCE_FRAMES_MAX = 2_048
/** Maximum frames of a transaction over several blocks. */
export const TRANSACTION_FRAMES_MAX = 16_384
const PAGE_BYTES = 4_096
/** Upper bounds of the B-tree pages that a block changes: for the block itself, and for each entry. */
const BLOCK_FRAMES_MAX = 64
const ENTRY_FRAMES_MAX = 24

/**
 * Returns an upper bound of the frames that a block writes; its content is stored up to three times, with up to three
 * bytes per character.
 */
export function estimateFrames({ entries }: Block): number {
  let characters = 0
  for (const entry of entries) characters += entry.length
  const textFrames = Math.ceil((9 * characters) / PAGE_BYTES)
  return BLOCK_FRAMES_MAX + entries.length * ENTRY_FRAMES_MAX + textFrames
}

/** Bytes of the header of a frame, and of its entry in the index. */
const FRAME_BYTES = 24 + 8

/**
 * Throws STORE_FULL if `folder` lacks the space to rewrite `pages` pages: VACUUM writes them to a temporary file, and
 * then to the WAL.
 */
export function requireRewriteSpace(folder: string, pages: number): void {
  const needed = pages * (2 * PAGE_BYTES + FRAME_BYTES) + FREE_BYTES_MIN
  const { bavail, bsize } = statfsSync(folder)
  if (bavail * bsize >= needed) return
  const message = `rewriting the store needs ${needed} bytes, but ${bavail * bsize} bytes are free`
  throw new StoreError('STORE_FULL', message)
}

/**
 * Throws STORE_FULL if a transaction of `frames` could need a larger WAL index on a full disk. `path` is
 * the database file; `walFrames()` is the number of frames in the WAL.
 *
 * SQLite extends the index only after the frames are written and synced. If the extension failed, it would be unknown
 * whether the transaction is valid after a crash. The check takes a few microseconds.
 */
export function requireWalIndexSpace(path: string, frames: number, walFrames: () => number): void {
  if (!isLow(dirname(path))) return
  const bytes = statSync(`${path}-shm`, { throwIfNoEntry: false })?.size ?? 0
  const indexed = Math.floor(bytes / SEGMENT_BYTES) * SEGMENT_FRAMES - HEADER_FRAMES
  if (walFrames() + frames <= indexed) return
  throw diskFull(undefined)
}

import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { SourceError } from '../source-error.ts'
import type { Quote } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import type { RateSource } from './source.ts'
import { parseVectorDocument } from './vector-document.ts'

/** Longest vector file that is read. */
const FILE_BYTES_MAX = 1_048_576
const FILE_REFRESH_MS = 60_000
const URL_REFRESH_MS = 10 * 60_000

/** The operator's own vector behind HTTPS. `name` and not the address is shown to clients. */
export function urlSource(name: string, url: URL, get: Get, now: () => number): RateSource {
  const options = {
    name,
    family: name,
    refreshMs: URL_REFRESH_MS,
    urls: [url],
    accept: 'application/json',
    parse: parseVectorDocument,
  }
  return new HttpSource(options, get, now)
}

/** The operator's own vector in a file, read again each minute. */
export function fileSource(name: string, path: string): RateSource {
  return {
    name,
    family: name,
    refreshMs: FILE_REFRESH_MS,
    partial: false,
    read: () => readVectorFile(path),
  }
}

/**
 * The quote in the file at `path`. Errors: SourceError; FILE_UNREADABLE also for what is no regular
 * file, because reading a pipe or a device may never end.
 */
export async function readVectorFile(path: string): Promise<Quote> {
  return parseVectorDocument(await readBounded(path))
}

async function readBounded(path: string): Promise<string> {
  try {
    // Opening a pipe nobody writes to would wait for ever without O_NONBLOCK.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const stat = await file.stat()
      if (!stat.isFile() || stat.size > FILE_BYTES_MAX) {
        throw new SourceError('FILE_UNREADABLE', 'it is no regular file, or longer than 1 MiB')
      }
      const bytes = Buffer.alloc(stat.size)
      const { bytesRead } = await file.read(bytes, 0, stat.size, 0)
      return bytes.toString('utf8', 0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (error instanceof SourceError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
    throw new SourceError('FILE_UNREADABLE', `the file cannot be read (${code})`, { cause: error })
  }
}

import { createHash } from 'node:crypto'
import { createReadStream, type Dirent, linkSync } from 'node:fs'
import { mkdir, readdir, unlink } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { errorCode } from '../../base/errors.ts'
import { fileExists, syncPath, writeFileInParts } from '../../base/files/durable-files.ts'
import { diskError, StoreError } from '../port/errors.ts'

const CHUNK_BYTES = 1024 * 1024
/** The path of a blob in its folder. */
const BLOB_PATH = /^[0-9a-f]{2}\/[0-9a-f]{62}$/

/**
 * Copies a file (mode 0600) and syncs it; returns its SHA-256 in hex. A crash leaves the old file or the new file.
 * Errors: STORE_FULL; errors of the system.
 */
export async function copyDurably(from: string, to: string): Promise<string> {
  const hash = createHash('sha256')
  try {
    await writeFileInParts(to, async (file) => {
      for await (const chunk of createReadStream(from, { highWaterMark: CHUNK_BYTES })) {
        hash.update(chunk)
        await file.writeFile(chunk)
      }
    })
    return hash.digest('hex')
  } catch (error) {
    throw diskError(error, `the disk is full: ${to} was not written`)
  }
}

/** Returns the relative path of an entry below `folder`, with `/` also on Windows. */
function pathBelow(folder: string, { parentPath, name }: Dirent): string {
  return relative(folder, join(parentPath, name)).replaceAll(sep, '/')
}

/** Returns the relative paths of the blobs below `folder`, sorted. */
async function listBlobPaths(folder: string): Promise<string[]> {
  if (!fileExists(folder)) return []
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found
    .filter((entry) => entry.isFile())
    .map((one) => pathBelow(folder, one))
    .filter((path) => BLOB_PATH.test(path))
    .sort()
}

export interface BlobFolder {
  readonly from: string
  readonly to: string
  /** The corresponding folder of an earlier backup, whose files are hard-linked instead of copied. */
  readonly previous: string | null
}

/**
 * Copies the blobs that `to` lacks; returns how many were copied instead of linked. With `verify`, reads the blobs that
 * `to` has or gets by a link, and replaces those that do not match their SHA-256. Skips files that are removed during
 * the copy. Errors: STORE_DAMAGED for a file in `from` that does not match its SHA-256; STORE_FULL.
 */
export async function copyMissingBlobs(
  { from, to, previous }: BlobFolder,
  verify: boolean,
): Promise<number> {
  let copied = 0
  const changedFolders = new Set<string>()
  for (const path of await listBlobPaths(from)) {
    const target = join(to, path)
    const sha256 = path.replace('/', '')
    const isGood = async () => !verify || (await fileSha256(target)) === sha256
    if (fileExists(target) && (await isGood())) continue
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    const isLinked = previous !== null && tryLink(join(previous, path), target)
    if (!isLinked || !(await isGood())) {
      if (!(await copyBlob(join(from, path), target, sha256))) continue
      copied += 1
    }
    changedFolders.add(dirname(target))
  }
  // Syncs `to` too, because the folders of the blobs may be new in it.
  if (changedFolders.size > 0) changedFolders.add(to)
  for (const folder of changedFolders) syncPath(folder)
  return copied
}

/** Removes incomplete files from `to`, and blobs that are no longer in `from`, unless `isNamed` returns true. */
export async function removeSurplusBlobs(
  { from, to }: BlobFolder,
  isNamed: (sha256: string) => Promise<boolean>,
): Promise<void> {
  const sourcePaths = new Set(await listBlobPaths(from))
  for (const entry of await readdir(to, { recursive: true, withFileTypes: true })) {
    const path = pathBelow(to, entry)
    if (entry.isDirectory() || sourcePaths.has(path)) continue
    if (BLOB_PATH.test(path) && (await isNamed(path.replace('/', '')))) continue
    await unlink(join(to, path))
  }
}

/** Tries to create `target` as a hard link to `path`, which not every file system supports. */
function tryLink(path: string, target: string): boolean {
  try {
    linkSync(path, target)
    return true
  } catch {
    return false
  }
}

async function fileSha256(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES }))
    hash.update(chunk)
  return hash.digest('hex')
}

async function copyBlob(from: string, target: string, sha256: string): Promise<boolean> {
  try {
    if ((await copyDurably(from, target)) === sha256) return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
  await unlink(target)
  throw new StoreError('STORE_DAMAGED', `the bytes of ${from} do not match the SHA-256 in its name`)
}

import { existsSync, lstatSync, realpathSync, rmSync, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { partialPath, syncFolder, writeFileInParts } from '../../base/files/durable-files.ts'
import { EXIT, Exit } from '../exit.ts'
import { beforeSignal } from '../signals.ts'

/**
 * Throws Exit (usage) if `out` is a folder, a device or a pipe, which a file would replace, one of the files `inputs`,
 * also by another path or a link, or an existing file in the data folder of a node.
 */
export function requireFileName(out: string, inputs: readonly string[] = []): void {
  if (out === '-' || !existsSync(out)) return
  const found = statSync(out, { bigint: true })
  const isFound = (path: string) => {
    const input = statSync(path, { bigint: true, throwIfNoEntry: false })
    return input?.ino === found.ino && input.dev === found.dev
  }
  if (found.isDirectory()) throw new Exit(EXIT.usage, `${out} is a folder: give the name of a file`)
  if (!found.isFile())
    throw new Exit(EXIT.usage, `${out} is a device or a pipe: give the name of a file`)
  if (inputs.some((path) => path !== '-' && isFound(path)))
    throw new Exit(EXIT.usage, `${out} is the input itself: choose another name`)
  if (NODE_FILES.some((name) => existsSync(join(dirname(followLink(out)), name))))
    throw new Exit(EXIT.usage, `${out} is in the data folder of a node: choose another folder`)
}

/** Files of which each data folder has one. */
const NODE_FILES = ['ledger.db', 'node.key']

/**
 * Writes `texts` to the file `out`, or to stdout for `-`. Returns the generator's return value. Only the owner can
 * read the file. The file gets its name when it is complete on the disk. After an interruption, nothing is left of it;
 * a crash leaves only a `.partial` file.
 */
export function writeTexts<End>(
  texts: AsyncGenerator<string, End>,
  out: string,
  isCompressed: boolean = out.endsWith('.gz'),
): Promise<End> {
  return out === '-' ? toStdout(texts, isCompressed) : toFile(texts, out, isCompressed)
}

/** Passes `texts` to `write`, and returns the generator's return value. */
async function passTexts<End>(
  texts: AsyncGenerator<string, End>,
  write: (texts: Readable) => Promise<void>,
): Promise<End> {
  let end: { readonly value: End } | null = null
  async function* all(): AsyncGenerator<string> {
    end = { value: yield* texts }
  }
  await write(Readable.from(all()))
  if (end === null)
    throw new Exit(EXIT.finding, 'the reader of the output closed it before the end')
  return (end as { readonly value: End }).value
}

const toCompressors = (isCompressed: boolean) => (isCompressed ? [createGzip()] : [])

function toStdout<End>(texts: AsyncGenerator<string, End>, isCompressed: boolean): Promise<End> {
  return passTexts(texts, (source) =>
    pipeline([source, ...toCompressors(isCompressed), process.stdout], { end: false }),
  )
}

async function toFile<End>(
  texts: AsyncGenerator<string, End>,
  out: string,
  isCompressed: boolean,
): Promise<End> {
  const path = followLink(out)
  const stopListening = beforeSignal(() => rmSync(partialPath(path), { force: true }))
  try {
    const write = (file: FileHandle) =>
      passTexts(texts, (source) =>
        pipeline([source, ...toCompressors(isCompressed), fileSink(file)]),
      )
    // Readable by the owner only, because the blinds of an export open every commitment.
    const end = await writeFileInParts(path, write, { inheritsOwner: false })
    await syncFolder(dirname(resolve(path)))
    return end
  } finally {
    stopListening()
  }
}

/**
 * Returns the path of the file to which `path` leads, so that a link such as /dev/stdout is not replaced by a file.
 * Throws Exit (usage) for a link of a user who is neither this user, root nor the owner of its folder: in a folder
 * such as /tmp, it could lead to any file of this user. Source: proc_sys_fs(5), protected_symlinks.
 */
export function followLink(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found?.isSymbolicLink() !== true || !existsSync(path)) return path
  const owners = [process.getuid?.() ?? found.uid, 0, statSync(dirname(path)).uid]
  if (!owners.includes(found.uid))
    throw new Exit(EXIT.usage, `${path} is a link of another user: choose another name`)
  return realpathSync(path)
}

/** Returns a stream to `file`. Unlike `file.createWriteStream`, the stream does not close `file` before the sync. */
export function fileSink(file: FileHandle): Writable {
  return new Writable({
    write(chunk: Buffer, _, done) {
      file.writeFile(chunk).then(() => done(), done)
    },
  })
}

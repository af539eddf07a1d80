import type fs from 'node:fs'
import type promises from 'node:fs/promises'
import { vi } from 'vitest'

/** Files that were synced or renamed, oldest first. Tests clear the list. */
export const diskLog: string[] = []

/** Loads modules again, so that their disk operations are logged. */
export async function toldModules<Loaded>(load: () => Promise<Loaded>): Promise<Loaded> {
  const [real, promised] = [await import('node:fs'), await import('node:fs/promises')]
  vi.resetModules()
  vi.doMock('node:fs', () => toldFs(real))
  vi.doMock('node:fs/promises', () => toldPromises(promised))
  try {
    return await load()
  } finally {
    vi.doUnmock('node:fs')
    vi.doUnmock('node:fs/promises')
    vi.resetModules()
  }
}

/** Returns `node:fs` with logging of writes with `flush`, `fsyncSync` and `renameSync`. */
function toldFs(real: typeof fs): typeof fs {
  const paths = new Map<number, string>()
  return {
    ...real,
    openSync: (path, flags, mode) => {
      const file = real.openSync(path, flags, mode)
      paths.set(file, String(path))
      return file
    },
    fsyncSync: (file) => {
      diskLog.push(`sync ${paths.get(file)}`)
      real.fsyncSync(file)
    },
    writeFileSync: (file, data, options) => {
      real.writeFileSync(file, data, options)
      if (typeof options === 'object' && options?.flush === true) diskLog.push(`sync ${file}`)
    },
    renameSync: (from, to) => {
      diskLog.push(`name ${to}`)
      real.renameSync(from, to)
    },
  }
}

/** Returns `node:fs/promises` with logging of `rename`, and of `sync` of an open file. */
function toldPromises(real: typeof promises): typeof promises {
  return {
    ...real,
    open: async (path, flags, mode) => {
      const file = await real.open(path, flags, mode)
      const sync = file.sync.bind(file)
      file.sync = async () => {
        diskLog.push(`sync ${path}`)
        await sync()
      }
      return file
    },
    rename: async (from, to) => {
      diskLog.push(`name ${to}`)
      await real.rename(from, to)
    },
  }
}

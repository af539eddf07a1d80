import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'

/**
 * The environment of threads and programs that otherwise have none, so that they use the compile cache of
 * this process and start in half the time; empty if it has none.
 */
export function compileCacheEnvironment(): Record<string, string> {
  // Node creates a folder for its version in the given folder.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

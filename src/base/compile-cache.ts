import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'

/**
 * Returns environment variables for threads and child processes that do not inherit the environment, so that they use
 * the compile cache of this process and start in half the time. Empty if this process has no cache.
 */
export function compileCacheEnvironment(): Record<string, string> {
  // Node creates a folder per version in the given folder.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

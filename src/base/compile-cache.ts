import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'

/**
 * Returns the environment variables that make a thread or child process use the compile cache of this process, which
 * halves its start time. Needed where the environment is not inherited. Returns {} if this process has no cache.
 */
export function compileCacheEnvironment(): Record<string, string> {
  // Node has appended a folder for its version to the configured path; `dirname` removes that folder.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

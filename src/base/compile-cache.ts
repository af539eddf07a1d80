import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'

/**
 * Environment by which a thread or program that gets nothing else of this one's takes what was compiled
 * before, and starts in half the time; empty where nothing is kept.
 */
export function compileCacheEnvironment(): Record<string, string> {
  // Node makes a folder for its version in the one that it was given.
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

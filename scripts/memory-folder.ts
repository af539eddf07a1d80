import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'
/** Minimum free space for the use of shared memory: more than tests use. Containers often have only 64 MiB. */
const FREE_BYTES_MIN = 2 * 1024 ** 3

/**
 * Returns a folder for temporary files. The folder is in memory if there is such a file system with enough space and
 * without `noexec`. Otherwise returns the system's temporary folder.
 */
export function memoryFolder(): string {
  return isFit() ? SHARED_MEMORY : tmpdir()
}

function isFit(): boolean {
  try {
    accessSync(SHARED_MEMORY, constants.W_OK)
    const { bavail, bsize } = statfsSync(SHARED_MEMORY)
    return bavail * bsize >= FREE_BYTES_MIN && startsPrograms()
  } catch {
    return false
  }
}

function startsPrograms(): boolean {
  const folder = mkdtempSync(join(SHARED_MEMORY, 'daicho-'))
  try {
    const program = join(folder, 'program')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 })
    return spawnSync(program).status === 0
  } finally {
    rmSync(folder, { recursive: true })
  }
}

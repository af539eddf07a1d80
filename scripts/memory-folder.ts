import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'
/** All that tests keep at a time is less; containers often have 64 MiB there. */
const FREE_BYTES_MIN = 2 * 1024 ** 3

/**
 * Where files may lie that do not outlive a run: in memory where there is such a place, with room for
 * them and from which programs can be started; else where the system has it.
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

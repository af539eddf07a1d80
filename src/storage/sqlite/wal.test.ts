import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { lengthenLog } from './wal.ts'

const LOG_BYTES = 32 * 1024 * 1024

it('a log is lengthened by zeros to 32 MiB, and what it holds stays as it is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-log-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'log')
  // No length that pieces of any size would come to by themselves.
  for (const held of [0, 4_129, LOG_BYTES - 1]) {
    writeFileSync(path, Buffer.alloc(held, 'x'))
    lengthenLog(path)
    const bytes = readFileSync(path)
    expect(bytes.length).toBe(LOG_BYTES)
    expect(bytes.equals(Buffer.alloc(LOG_BYTES).fill('x', 0, held))).toBe(true)
  }
  writeFileSync(path, Buffer.alloc(LOG_BYTES + 5, 'x'))
  lengthenLog(path)
  expect(statSync(path).size).toBe(LOG_BYTES + 5)
})

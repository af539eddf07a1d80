import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { stampOf } from './load-state.ts'

it('the stamp of a file changes with its size and with its modification time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'items.json')
  const stampAt = (seconds: number, text: string) => {
    writeFileSync(path, text)
    utimesSync(path, seconds, seconds)
    return stampOf(path)
  }
  const stamp = stampAt(1_000, 'aaa')
  expect(stampAt(1_000, 'aaa')).toBe(stamp)
  expect(stampAt(1_000, 'aaaa')).not.toBe(stamp)
  expect(stampAt(1_001, 'bbb')).not.toBe(stamp)
  expect(stampOf('-')).toBe('stdin')
})

import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { diskLog, toldModules } from '../../../test/support/disk-log.ts'

const { replaceFile } = await toldModules(() => import('./durable-files.ts'))

it('syncs the content before the rename, and the rename before returning', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'node.key')
  replaceFile(path, 'old')
  diskLog.length = 0
  replaceFile(path, 'new')
  expect(diskLog).toEqual([`sync ${path}.new`, `name ${path}`, `sync ${folder}`])
  expect([readFileSync(path, 'utf8'), statSync(path).mode & 0o777]).toEqual(['new', 0o600])
})

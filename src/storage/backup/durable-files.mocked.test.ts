import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { diskLog, toldModules } from '../../../test/support/disk-log.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { openStore } from '../open.ts'

const { backupFolder, copyMissingBlobs } = await toldModules(async () => ({
  ...(await import('./backup.ts')),
  ...(await import('./durable-files.ts')),
}))

/** Part of the names of unfinished files. */
const OWN = `${hostname()}.${process.pid}`
let base: string
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(base, { recursive: true, force: true }))
})
/** Returns the disk operations since the last call, with paths relative to the test's folder. */
const operations = () => diskLog.splice(0).map((line) => line.replace(base, '').replace(/ $/, ' .'))

it('syncs a copied blob before its rename, and every changed folder after the rename', async () => {
  const name = createHash('sha256').update('content').digest('hex')
  const [start, rest] = [name.slice(0, 2), name.slice(2)]
  mkdirSync(join(base, 'from', start), { recursive: true })
  mkdirSync(join(base, 'to'))
  writeFileSync(join(base, 'from', start, rest), 'content')
  operations()
  const folders = { from: join(base, 'from'), to: join(base, 'to'), previous: null }
  expect(await copyMissingBlobs(folders, true)).toBe(1)
  expect(operations()).toEqual([
    `sync /to/${start}/${rest}.${OWN}.partial`,
    `name /to/${start}/${rest}`,
    `sync /to/${start}`,
    'sync /to',
  ])
  expect(await copyMissingBlobs(folders, true)).toBe(0)
  expect(operations()).toEqual([])
})

it('syncs the whole backup before its rename, and the rename before returning', async () => {
  const folder = join(base, 'data')
  mkdirSync(folder)
  writeFileSync(join(folder, 'node.key'), 'the key')
  const store = await openStore({ location: folder, serverId: CONTRACT_SERVER_ID, durable: false })
  await appendEntries(store, [entry.createDb('fruit')])
  await store.close()
  operations()
  const made = await backupFolder({
    ...{
      folder,
      to: join(base, 'to'),
      nowMs: 0,
      files: ['node.key'],
      blobFolders: [],
      mirrors: [],
    },
    ...{ verify: true, progress: () => {} },
  })
  expect(made.path).not.toBeNull()
  expect(operations()).toEqual([
    `sync /to/.partial/node.key.${OWN}.partial`,
    'name /to/.partial/node.key',
    'sync /to/.partial',
    'sync /to',
    'name /to/1970-01-01T00-00-00.000Z',
    'sync /to',
  ])
})

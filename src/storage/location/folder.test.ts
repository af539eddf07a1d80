import { once } from 'node:events'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from '../../ledger/core.ts'
import { folderWarning, lockFolder } from './folder.ts'

const OTHER_USER = 65_534

it.skipIf(process.geteuid?.() !== 0)(
  'files that root creates belong to the owner of the folder',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'daicho-owner-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    chownSync(folder, OTHER_USER, OTHER_USER)
    const { service, close } = await openLedger({ folder, clock: systemClock })
    await service.write.createDatabase('fruit')
    const owners = () =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => {
        const { uid, gid } = statSync(join(folder, name))
        return [name, uid, gid]
      })
    const running = owners()
    await close()
    const names = running.map(([name]) => name)
    expect(names).toEqual(
      expect.arrayContaining(['ledger.db', 'ledger.db-wal', 'ledger.lock', 'node.key']),
    )
    expect(running).toEqual(names.map((name) => [name, OTHER_USER, OTHER_USER]))
    for (const [, uid] of owners()) expect(uid).toBe(OTHER_USER)
  },
)

it.skipIf(process.platform !== 'linux')('warns about a folder on a network file system', () => {
  const type = { nfs: 0x6969, cifs: 0xff53_4d42, ext4: 0xef53 }
  expect(folderWarning('/data', type.nfs)).toContain('/data is on a network file system (NFS)')
  expect(folderWarning('/data', type.cifs)).toContain('(CIFS)')
  expect([folderWarning('/data', type.ext4), folderWarning(tmpdir())]).toEqual([null, null])
})

it('names the lock file if SQLite cannot open it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-lock-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const lock = join(folder, 'ledger.lock')
  mkdirSync(lock)
  const message = `${lock} cannot be used: unable to open database file`
  expect(() => lockFolder(folder)).toThrow(
    expect.objectContaining({ code: 'FOLDER_UNUSABLE', message }),
  )
})

it('waits for a lock that another process holds only for a moment, as doctor does', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-lock-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const holder = `
    const { DatabaseSync } = require('node:sqlite')
    const { parentPort } = require('node:worker_threads')
    const database = new DatabaseSync(${JSON.stringify(join(folder, 'ledger.lock'))})
    database.exec('BEGIN EXCLUSIVE')
    parentPort.postMessage('locked')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    database.close()`
  const worker = new Worker(holder, { eval: true })
  await once(worker, 'message')
  const locked = lockFolder(folder)
  expect(locked.path).toBe(folder)
  locked.release()
  await once(worker, 'exit')
})

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { tamper } from '../../../test/support/tampered.ts'
import { appendEntries, CONTRACT_SERVER_ID, entry } from '../contract/test-store.ts'
import { lockFolder } from '../location/folder.ts'
import { openStore, openStoreReader } from '../open.ts'
import type { Store } from '../port/store.ts'
import { verifyStore } from '../verify/verify.ts'
import { type BackupOptions, backupFolder, dropOldBackups } from './backup.ts'

const NOW = Date.UTC(2026, 10, 20, 19, 30, 5, 123)
const serverId = CONTRACT_SERVER_ID

function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The names in a folder, without that of its lock. */
const listed = (folder: string) => readdirSync(folder).filter((name) => name !== '.lock')

/** Creates a data folder with a store of `blocks` blocks and a key, and a folder for its backups. */
async function testFolders(blocks = 3): Promise<{ folder: string; to: string; store: Store }> {
  const folder = join(testFolder(), 'data')
  mkdirSync(folder)
  writeFileSync(join(folder, 'node.key'), 'the key')
  const store = await openStore({ location: folder, serverId, durable: false })
  onTestFinished(() => store.close().catch(() => {})) // if the test has not closed it
  await appendEntries(store, [entry.createDb('fruit')])
  for (let n = 1; n < blocks; n += 1) await appendEntries(store, [entry.create('fruit', `${n}`)])
  return { folder, to: join(folder, '..', 'backups'), store }
}

function backup(folder: string, to: string, options: Partial<BackupOptions> = {}) {
  return backupFolder({
    folder,
    to,
    nowMs: NOW,
    files: ['node.key', 'users.json'],
    blobFolders: [{ name: 'attachments', incoming: 'incoming' }],
    mirrors: [],
    verify: true,
    progress: () => {},
    ...options,
  })
}

/** Adds a blob with `content` to the data folder. Returns the path of the blob in that folder. */
function keepContent(folder: string, content: string): string {
  const name = createHash('sha256').update(content).digest('hex')
  mkdirSync(join(folder, 'attachments', name.slice(0, 2)), { recursive: true })
  writeFileSync(join(folder, 'attachments', name.slice(0, 2), name.slice(2)), content)
  return join('attachments', name.slice(0, 2), name.slice(2))
}

async function verification(folder: string) {
  const store = await openStoreReader(folder, { frozen: true })
  try {
    return await verifyStore(store)
  } finally {
    await store.close()
  }
}

it('a backup contains a verified snapshot of the store and the files on the backup list, and no other files', async () => {
  const { folder, to, store } = await testFolders()
  writeFileSync(join(folder, 'rates.json'), 'not named')
  // An interrupted backup of another node, which has attachments.
  mkdirSync(join(to, '.partial', 'attachments', 'ab'), { recursive: true, mode: 0o700 })
  writeFileSync(join(to, '.partial', 'attachments', 'ab', 'c'.repeat(62)), 'of another node')
  const shares: number[] = []
  const seen: string[][] = []
  const progress = (share: number) => {
    shares.push(share)
    if (share === 1) seen.push(readdirSync(join(to, '.partial')).sort())
  }
  const made = await backup(folder, to, { progress })
  // A crash between the last step, the rename, and the return leaves no other file.
  expect(seen.at(-1)).toEqual(['ledger.db', 'node.key'])
  expect(made).toMatchObject({ serverId, blocks: 3, headId: (await store.head(serverId))?.id })
  expect(made.path).toBe(join(to, '2026-11-20T19-30-05.123Z'))
  expect(made.verification).toMatchObject({ finding: null, blocks: 3 })
  expect(listed(to)).toEqual(['2026-11-20T19-30-05.123Z'])
  expect(readdirSync(made.path ?? '').sort()).toEqual(['ledger.db', 'node.key'])
  expect(readFileSync(join(made.path ?? '', 'node.key'), 'utf8')).toBe('the key')
  expect(shares).toEqual(shares.toSorted((one, other) => one - other))
  expect(shares.at(-1)).toBe(1)
  for (const name of ['', 'ledger.db', 'node.key']) {
    expect(statSync(join(made.path ?? '', name)).mode & 0o077).toBe(0)
  }

  const again = await openStore({ location: made.path ?? '', serverId, durable: true })
  await appendEntries(again, [entry.create('fruit', 'more')])
  await again.close()
  expect(await verification(made.path ?? '')).toMatchObject({ finding: null, blocks: 4 })
})

it('a backup of a running node contains the chain up to one block, and the databases as of that block', async () => {
  const { folder, to, store } = await testFolders(2_000)
  let isWriting = true
  const writing = (async () => {
    for (let n = 0; isWriting; n += 1) {
      await appendEntries(store, [
        entry.create('fruit', `while ${n}`),
        entry.update('fruit', '1', n),
      ])
      if (n % 50 === 0) await store.maintain()
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  const made = await backup(folder, to).finally(() => {
    isWriting = false
    return writing
  })
  expect(made.verification?.finding).toBeNull()
  expect(made.blocks).toBeGreaterThanOrEqual(2_000)
  const [last] = await store.blocks(serverId, made.blocks - 1, 1)
  expect(last?.id).toBe(made.headId)
  expect((await store.head(serverId))?.height).toBeGreaterThan(made.blocks)
})

it('a backup made right after an erasure contains nothing of the erased content', async () => {
  const { folder, to, store } = await testFolders(1)
  await appendEntries(store, [entry.create('fruit', 'a', 'SECRET')])
  await store.addIndex('fruit', 'n')
  while (await store.maintain());
  await store.removeIndex('fruit', 'n')
  await appendEntries(store, [entry.update('fruit', 'a')])
  await appendEntries(store, [entry.erase('fruit', 'a', ['1.0'])])
  const made = await backup(folder, to)
  expect(made.verification?.finding).toBeNull()
  expect(readFileSync(join(made.path ?? '', 'ledger.db')).includes('SECRET')).toBe(false)
})

it('a backup has no blob that was erased before its store was copied, and each blob to which its store refers', async () => {
  const { folder, to, store } = await testFolders()
  await appendEntries(store, [entry.attach('fruit', '1', 'name', 'content')])
  // Copied in more than one step, between which the test removes files.
  await appendEntries(store, [entry.create('fruit', 'long', 'x'.repeat(6_000_000))])
  const [kept, erased] = [keepContent(folder, 'content'), keepContent(folder, 'erased')]
  const { path } = await backup(folder, to, {
    progress: (_, phase) => {
      for (const name of phase === 'copied' ? [kept, erased] : [])
        rmSync(join(folder, name), { force: true })
    },
  })
  expect([existsSync(join(folder, kept)), existsSync(join(folder, erased))]).toEqual([false, false])
  const inBackup = (name: string) => existsSync(join(path ?? '', name))
  expect([inBackup(kept), inBackup(erased)]).toEqual([true, false])
})

it('a damaged store is not backed up, unless verification is disabled', async () => {
  const { folder, to, store } = await testFolders()
  await store.close()
  tamper(folder, `UPDATE items SET item = '{"id":"1","n":9}' WHERE id = '1'`)
  const made = await backup(folder, to)
  expect(made.path).toBeNull()
  expect(made.verification?.finding).toMatchObject({ height: 1, index: 0 })
  expect(listed(to)).toEqual(['.partial'])
  expect((await backup(folder, to, { verify: false })).path).not.toBeNull()
  expect(listed(to)).toEqual(['2026-11-20T19-30-05.123Z'])
})

it('an interrupted backup leaves no result, and the next run completes it', async () => {
  const { folder, to } = await testFolders()
  const content = keepContent(folder, 'a picture')
  const gone = keepContent(folder, 'erased since')
  mkdirSync(join(to, '.partial', content, '..'), { recursive: true })
  mkdirSync(join(to, '.partial', gone, '..'), { recursive: true })
  writeFileSync(join(to, '.partial', content), 'a picture')
  const { ino } = statSync(join(to, '.partial', content))
  writeFileSync(join(to, '.partial', gone), 'erased since')
  writeFileSync(join(to, '.partial', `${content}.unfinished`), 'a pic')
  writeFileSync(join(to, '.partial', 'users.json'), 'asked for then, not now')
  writeFileSync(join(to, '.partial', 'ledger.db'), 'half a store')
  writeFileSync(join(to, '.partial', 'ledger.db-journal'), 'half a journal')
  unlinkSync(join(folder, gone))

  const made = await backup(folder, to, { files: ['node.key'] })
  const path = made.path ?? ''
  expect(made.contents).toBe(0)
  expect(statSync(join(path, content)).ino).toBe(ino)
  expect(existsSync(join(path, gone))).toBe(false)
  expect(readdirSync(path).sort()).toEqual(['attachments', 'ledger.db', 'node.key'])
  expect(existsSync(join(path, `${content}.unfinished`))).toBe(false)
  expect((await verification(path)).finding).toBeNull()
  expect(listed(to)).toEqual(['2026-11-20T19-30-05.123Z'])
})

it('copies each blob once, hard-links it in the next backup, and omits removed blobs', async () => {
  const { folder, to } = await testFolders()
  const first = keepContent(folder, 'first')
  const second = keepContent(folder, 'second')
  mkdirSync(join(folder, 'attachments', 'incoming'))
  writeFileSync(join(folder, 'attachments', 'incoming', '1'), 'still arriving')
  const one = await backup(folder, to)
  expect(one.contents).toBe(2)
  unlinkSync(join(folder, second))
  const third = keepContent(folder, 'third')
  const two = await backup(folder, to, { nowMs: NOW + 1_000 })
  expect(two.contents).toBe(1)
  const inode = (backup: { path: string | null }, path: string) =>
    statSync(join(backup.path ?? '', path)).ino
  expect(inode(two, first)).toBe(inode(one, first))
  expect(inode(two, first)).not.toBe(statSync(join(folder, first)).ino)
  expect(existsSync(join(two.path ?? '', second))).toBe(false)
  expect(existsSync(join(one.path ?? '', second))).toBe(true)
  expect(readFileSync(join(two.path ?? '', third), 'utf8')).toBe('third')
  expect(readdirSync(join(two.path ?? '', 'attachments', 'incoming'))).toEqual([])
  rmSync(join(folder, 'attachments', 'incoming'), { recursive: true })
  const three = await backup(folder, to, { nowMs: NOW + 2_000 })
  expect(existsSync(join(three.path ?? '', 'attachments', 'incoming'))).toBe(false)

  writeFileSync(join(folder, third), 'another content')
  rmSync(to, { recursive: true })
  await expect(backup(folder, to)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
})

it('replaces a damaged blob of the last backup instead of linking it, and reports a missing blob', async () => {
  const { folder, to, store } = await testFolders()
  const attached = entry.attach('fruit', '1', 'name', 'content')
  await appendEntries(store, [attached])
  const sha256 = String(Object(attached).attachment.sha256)
  const path = join('attachments', sha256.slice(0, 2), sha256.slice(2))
  const missing = await backup(folder, to)
  expect([missing.path, missing.verification?.finding]).toEqual([
    null,
    { height: 3, index: 0, what: `blob ${sha256} is missing` },
  ])
  expect(keepContent(folder, 'content')).toBe(path)
  const one = await backup(folder, to)
  writeFileSync(join(one.path ?? '', path), 'damaged')
  const two = await backup(folder, to, { nowMs: NOW + 1_000 })
  expect(readFileSync(join(two.path ?? '', path), 'utf8')).toBe('content')
  writeFileSync(join(folder, path), 'damaged')
  writeFileSync(join(two.path ?? '', path), 'damaged')
  await expect(backup(folder, to)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
})

it('never removes the backup that was just made, even if others have a later name, nor those of other nodes or with other blocks', async () => {
  const { folder, to } = await testFolders()
  for (const year of [2020, 2098, 2099]) await backup(folder, to, { nowMs: Date.UTC(year) })
  const [foreign, unreadable] = ['2020-02-01T00-00-00.000Z', '2020-03-01T00-00-00.000Z']
  mkdirSync(join(to, foreign))
  mkdirSync(join(to, unreadable))
  const location = join(to, foreign)
  await (await openStore({ location, serverId: serverId + 1, durable: false })).close()
  const made = (await backup(folder, to)).path ?? ''
  expect(await dropOldBackups(to, 2, made)).toEqual([
    ...['2020-01-01T00-00-00.000Z', '2098-01-01T00-00-00.000Z'],
  ])
  expect(await dropOldBackups(to, 1, made)).toEqual(['2099-01-01T00-00-00.000Z'])
  expect(listed(to)).toEqual([foreign, unreadable, '2026-11-20T19-30-05.123Z'])
  // A node that was restored from an older backup lacks blocks of the later ones.
  const { folder: shorter } = await testFolders(2)
  const later = (await backup(shorter, to, { nowMs: NOW + 1 })).path ?? ''
  expect(await dropOldBackups(to, 1, later)).toEqual([])
})

it('backups with the same timestamp get different names, and old backups are removed on request', async () => {
  const { folder, to } = await testFolders()
  for (let n = 0; n < 3; n += 1) await backup(folder, to, { verify: false })
  mkdirSync(join(to, '.expired-2020-01-01T00-00-00.000Z'))
  mkdirSync(join(to, 'mine'))
  const names = ['2026-11-20T19-30-05.124Z', '2026-11-20T19-30-05.125Z']
  const made = join(to, '2026-11-20T19-30-05.125Z')
  expect(await dropOldBackups(to, 2, made)).toEqual(['2026-11-20T19-30-05.123Z'])
  expect(listed(to).sort()).toEqual([...names, 'mine'])
  expect(await dropOldBackups(to, 2, made)).toEqual([])
})

it('keeps the file of its lock, so that a backup that waits for the lock and a new one cannot run together', async () => {
  const { folder, to } = await testFolders()
  const other = lockFolder(join(to, '.lock'))
  const { ino } = statSync(join(to, '.lock', 'ledger.lock'))
  other.release()
  await backup(folder, to)
  expect(statSync(join(to, '.lock', 'ledger.lock')).ino).toBe(ino)
})

it('rejects a backup while another backup to the same folder is running, and creates nothing for a missing store', async () => {
  const { folder, to } = await testFolders()
  const other = lockFolder(join(to, '.lock'))
  await expect(backup(folder, to)).rejects.toMatchObject({ code: 'FOLDER_IN_USE' })
  other.release()
  expect((await backup(folder, to)).path).not.toBeNull()
  const nothing = testFolder()
  await expect(backup(nothing, join(nothing, 'to'))).rejects.toMatchObject({
    code: 'STORE_NOT_FOUND',
  })
  expect(readdirSync(nothing)).toEqual([])
})

/** Mounts a small disk. Returns its path, or null if this process cannot mount one. */
function smallDisk(kilobytes: number): string | null {
  const disk = testFolder()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'tmpfs', disk], {
      stdio: 'pipe',
    })
  } catch {
    return null
  }
  onTestFinished(() => {
    execFileSync('umount', [disk])
  })
  return disk
}

it('reports a full disk, leaves no incomplete backup, and continues when the disk has space', async (test) => {
  const disk = smallDisk(400)
  if (disk === null) return test.skip('no disk can be mounted here: needs root on Linux')
  const { folder, store } = await testFolders()
  const to = join(disk, 'backups')
  // The disk has too little space for the store, which is detected before copying.
  await appendEntries(store, [entry.create('fruit', 'big', 'x'.repeat(500_000))])
  await expect(backup(folder, to)).rejects.toMatchObject({
    code: 'STORE_FULL',
    message: expect.stringMatching(/^the copy needs \d+ bytes, but .* has \d+ bytes free$/),
  })
  expect(listed(to)).toEqual(['.partial'])
  // The disk has space for the store, but not for the blob.
  const { folder: small } = await testFolders()
  keepContent(small, 'y'.repeat(500_000))
  await expect(backup(small, to)).rejects.toMatchObject({ code: 'STORE_FULL' })
  expect(listed(to)).toEqual(['.partial'])
  rmSync(join(small, 'attachments'), { recursive: true })
  expect((await backup(small, to)).path).not.toBeNull()
})

it("does not change a byte of a stopped node's folder, even on a read-only disk", async (test) => {
  const { folder, store } = await testFolders()
  await store.close()
  const picture = (path: string) =>
    readdirSync(path, { withFileTypes: true }).map(({ name }) => [
      name,
      readFileSync(join(path, name)).toString('base64'),
      statSync(join(path, name)).mtimeMs,
    ])
  const before = picture(folder)
  expect((await verification(folder)).finding).toBeNull()
  expect(picture(folder)).toEqual(before)
  // The next reader removes the leftovers of a killed reader.
  writeFileSync(join(folder, 'ledger.db-wal'), '')
  writeFileSync(join(folder, 'ledger.db-shm'), '')
  expect((await verification(folder)).finding).toBeNull()
  expect(picture(folder)).toEqual(before)

  const disk = smallDisk(2_000)
  if (disk === null) return test.skip('no disk can be mounted here: needs root on Linux')
  execFileSync('cp', ['-a', folder, join(disk, 'stopped')])
  const killed = join(disk, 'killed')
  mkdirSync(killed)
  const running = await openStore({ location: folder, serverId, durable: false })
  await appendEntries(running, [entry.create('fruit', 'only in the log')])
  for (const name of readdirSync(folder))
    writeFileSync(join(killed, name), readFileSync(join(folder, name)))
  await running.close()
  execFileSync('mount', ['-o', 'remount,ro', disk])
  expect(await verification(join(disk, 'stopped'))).toMatchObject({ finding: null, blocks: 3 })
  expect(await verification(killed)).toMatchObject({ finding: null, blocks: 4 })
  const made = await backup(join(disk, 'stopped'), join(folder, '..', 'from-read-only'))
  expect(made.verification).toMatchObject({ finding: null, blocks: 3 })
})

it.each(['attachments', 'node.key'])(
  'makes no backup if the system cannot report whether %s exists',
  async (name) => {
    const { folder, to } = await testFolders()
    rmSync(join(folder, name), { force: true })
    // Accessing a symbolic link to itself fails, as on a failing disk.
    symlinkSync(name, join(folder, name))
    await expect(backup(folder, to)).rejects.toMatchObject({ code: 'ELOOP' })
    expect(listed(to)).toEqual(['.partial'])
  },
)

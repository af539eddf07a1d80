// A node whose disk is full. When the disk has free space again, the node recovers without a restart.
import { spawnSync } from 'node:child_process'
import { readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runDaicho, serveLedger } from './support/daicho.ts'
import { temporaryFolder, verifyFolder } from './support/ledger-node.ts'
import { TestLog } from './support/test-log.ts'

const MB = 1_000_000
const TEXT = 'x'.repeat(100_000)
/**
 * Twice the WAL size at which a checkpoint starts (CHECKPOINT_FRAMES pages of 4 KiB). The WAL must stay below twice
 * this size.
 */
const WAL_BYTES = 32 * 1024 * 1024

/** Fills the disk except for `left` bytes. Ignores ENOSPC, because the node can use space in the meantime. */
function fill(disk: string, left = 0): void {
  const { bavail, bsize } = statfsSync(disk)
  try {
    writeFileSync(join(disk, 'filler'), Buffer.alloc(bavail * bsize - left))
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'ENOSPC') throw error
  }
}

// Number of writes before the disk is full. After 1 write, the WAL index has its minimum size. After 110 writes, the
// WAL index has grown and a checkpoint will start soon.
it.for([1, 110])(
  'a node whose disk is full after %i writes returns 507 until there is space, then accepts writes, and keeps its WAL small',
  async (before, { skip }) => {
    const disk = temporaryFolder()
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=180m', 'tmpfs', disk])
    if (mounted.status !== 0) {
      return skip('no disk can be mounted here: needs root on Linux')
    }
    try {
      const folder = join(disk, 'data')
      const node = await serveLedger(folder, { LOG_LEVEL: 'silent' })
      const answered: string[] = []
      const send = (path: string, body: unknown) =>
        fetch(node.url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      const write = async () => {
        const id = `n${answered.length}-${Math.random()}`
        const { status } = await send('/api/d', { id, TEXT })
        if (status === 200) answered.push(id)
        return status
      }
      await fetch(`${node.url}/api/d`, { method: 'POST' })
      for (let n = 0; n < before; n += 1) expect(await write()).toBe(200)

      fill(disk)
      const statuses = new Set<number>()
      for (let refused = 0; refused < 40; ) {
        const status = await write()
        statuses.add(status)
        if (status !== 200) refused += 1
      }
      expect([...statuses].filter((status) => status !== 200)).toEqual([507])
      expect((await fetch(`${node.url}/readyz`)).status).toBe(503)
      // A peer and a witness key are stored in files of their own.
      const peer = await send('/api/config/peers', {
        vkey: new TestLog(0, 'peer').vkey,
        url: 'http://127.0.0.1:9',
      })
      const key = await fetch(`${node.url}/api/ledgers/witness/vkey`)
      expect([peer.status, JSON.parse(await peer.text()).code]).toEqual([507, 'STORE_FULL'])
      expect(key.status).toBe(507)
      expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
      const last = await fetch(`${node.url}/api/d/${answered.at(-1)}`)
      expect([answered.length >= before, last.status]).toEqual([true, 200])

      rmSync(join(disk, 'filler'))
      // A load balancer sends no changes to a node that is not ready.
      const readiness = async () => (await fetch(`${node.url}/readyz`)).status
      await expect.poll(readiness, { timeout: 10_000 }).toBe(200)
      const store = join(folder, 'ledger.db')
      const had = statSync(store).size
      // Writes until the store has grown, instead of a fixed number of times, because the node waits at least a second
      // before it repeats a failed checkpoint.
      const checkpointed = async () => {
        expect(await write()).toBe(200)
        return statSync(store).size
      }
      await expect.poll(checkpointed).toBeGreaterThan(had)
      for (let n = 0; n < 250 && statSync(store).size < had + 20 * MB; n += 1) {
        expect(await write()).toBe(200)
      }
      expect(statSync(store).size).toBeGreaterThanOrEqual(had + 20 * MB)
      expect(statSync(`${store}-wal`).size).toBeLessThan(2 * WAL_BYTES)
      expect((await fetch(`${node.url}/readyz`)).status).toBe(200)
      const listed = JSON.parse(await (await fetch(`${node.url}/api/d`)).text())
      expect(listed.items).toEqual(answered)
      node.child.kill('SIGKILL')
      await node.ended
      expect(await verifyFolder(folder)).toMatchObject({ items: answered.length, finding: null })
    } finally {
      spawnSync('umount', ['-l', disk])
    }
  },
)

const post = (url: string, body: unknown) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

it.for(['SIGKILL', 'SIGTERM'] as const)(
  'after %s on a full disk, a node serves reads, and accepts writes when there is space; a node without the space to start prints one line',
  async (signal, { skip }) => {
    const disk = temporaryFolder()
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=80m', 'tmpfs', disk])
    if (mounted.status !== 0) return skip('no disk can be mounted here: needs root on Linux')
    const filler = join(disk, 'filler')
    try {
      const folder = join(disk, 'data')
      const first = await serveLedger(folder, { LOG_LEVEL: 'silent' })
      await fetch(`${first.url}/api/d`, { method: 'POST' })
      expect((await post(`${first.url}/api/d`, { id: 'before' })).status).toBe(200)
      fill(disk)
      let status = 200
      for (let n = 0; n < 200 && status === 200; n += 1) {
        status = (await post(`${first.url}/api/d`, { TEXT })).status
      }
      expect(status).toBe(507)
      const { items } = JSON.parse(await (await fetch(`${first.url}/api/d`)).text())
      first.child.kill(signal)
      await first.ended

      const second = await serveLedger(folder, { LOG_LEVEL: 'silent' })
      expect(await (await fetch(`${second.url}/api/d`)).json()).toMatchObject({ items })
      const refused = await post(`${second.url}/api/d`, { TEXT: TEXT.repeat(20) })
      expect([refused.status, JSON.parse(await refused.text()).code]).toEqual([507, 'STORE_FULL'])
      expect((await fetch(`${second.url}/readyz`)).status).toBe(503)
      rmSync(filler)
      expect((await post(`${second.url}/api/d`, { id: 'after' })).status).toBe(200)
      expect((await fetch(`${second.url}/readyz`)).status).toBe(200)
      second.child.kill('SIGTERM')
      expect((await second.ended).code).toBe(0)

      fill(disk)
      const variables = { SYSTEM_FOLDER: folder }
      const { code, stderr } = await runDaicho(
        ['serve', '--only', 'ledger', '--port', '0'],
        variables,
      )
      expect([code, stderr]).toEqual([78, 'daicho: SYSTEM_FOLDER: the disk is full\n'])
      // Leaves space for little more than the lock file, which is enough for a start.
      rmSync(filler)
      fill(disk, 4 * MB)
      const third = await serveLedger(folder, { LOG_LEVEL: 'silent' })
      expect((await fetch(`${third.url}/api/d/after`)).status).toBe(200)
      third.child.kill('SIGTERM')
      expect((await third.ended).code).toBe(0)
      rmSync(filler)
      const last = await verifyFolder(folder)
      expect(last).toMatchObject({ items: items.length + 1, finding: null })
    } finally {
      spawnSync('umount', ['-l', disk])
    }
  },
)

// A disk that is full to the last byte, and has room again: nothing needs to be started anew.
import { spawnSync } from 'node:child_process'
import { rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { serveLedger } from './support/daicho.ts'
import { temporaryFolder, verifyFolder } from './support/ledger-node.ts'

const MB = 1_000_000
const TEXT = 'x'.repeat(100_000)
/** The log's file is this long from the beginning; what is written over it needs no room. */
const LOG_BYTES = 32 * 1024 * 1024

// 0: the index of the log is as short as it can be; 110: it has grown, and the log is about to be folded.
it.for([0, 110])(
  'full after %i writes: refused with 507 until there is room, then written, and the log does not grow',
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

      const { bavail, bsize } = statfsSync(disk)
      writeFileSync(join(disk, 'filler'), Buffer.alloc(bavail * bsize))
      const statuses = new Set<number>()
      for (let refused = 0; refused < 40; ) {
        const status = await write()
        statuses.add(status)
        if (status !== 200) refused += 1
      }
      expect([...statuses].filter((status) => status !== 200)).toEqual([507])
      expect((await fetch(`${node.url}/readyz`)).status).toBe(503)
      const last = await fetch(`${node.url}/api/d/${answered.at(-1)}`)
      expect([answered.length > before, last.status]).toEqual([true, 200])

      rmSync(join(disk, 'filler'))
      const store = join(folder, 'ledger.db')
      const had = statSync(store).size
      // A fold that failed is tried again a second later at the earliest; a fast machine writes much until then.
      const folded = async () => {
        expect(await write()).toBe(200)
        return statSync(store).size
      }
      await expect.poll(folded).toBeGreaterThan(had)
      // The log is folded beside the writes: some come before it has been.
      for (let n = 0; n < 250 && statSync(store).size < had + 20 * MB; n += 1) {
        expect(await write()).toBe(200)
      }
      expect(statSync(store).size).toBeGreaterThanOrEqual(had + 20 * MB)
      expect(statSync(`${store}-wal`).size).toBeLessThan(2 * LOG_BYTES)
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

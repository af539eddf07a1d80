import { chmodSync, chownSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from '../../ledger/core.ts'
import { takePort } from '../composition/ports.ts'
import { clockFinding, diskFinding, doctorCommand, fileLimitFinding } from './doctor.ts'

/** Creates the folder of a node with one block. The node runs until `close` is called. */
async function usedFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-doctor-'))
  chmodSync(folder, 0o700)
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { service, close } = await openLedger({ folder, difficulty: 0, clock: systemClock })
  await service.createDatabase('fruit')
  return { folder, close }
}

async function statesIn(folder: string, variables: Readonly<Record<string, string>> = {}) {
  const args = ['--only', 'ledger', '--json', '--folder', folder]
  const { code, stdout } = await runHere(doctorCommand(), args, { PORT: '0', ...variables })
  const { findings }: { findings: { check: string; state: string; message: string }[] } =
    JSON.parse(stdout)
  const of = (check: string) => findings.find((finding) => finding.check === check)
  return { code, of, all: findings }
}

it('finds no problem in the folder of a running node, and of a stopped node', async () => {
  const { folder, close } = await usedFolder()
  const running = await statesIn(folder)
  expect(running.code).toBe(0)
  expect(running.of('folder')).toMatchObject({ message: `${folder}, in use by a running node` })
  expect(running.of('ports')?.message).toContain('is free; the running node uses another port')
  expect(running.of('key')).toMatchObject({ state: 'ok' })
  await close()
  const files = readdirSync(folder).sort()
  const stopped = await statesIn(folder)
  expect(stopped.code).toBe(0)
  expect(stopped.of('folder')).toMatchObject({ message: `${folder}, not in use` })
  expect(readdirSync(folder).sort()).toEqual(files)
})

it.skipIf(process.geteuid?.() !== 0)('reports files of another owner', async () => {
  const { folder, close } = await usedFolder()
  await close()
  chownSync(join(folder, 'node.key'), 65_534, 65_534)
  const { code, all } = await statesIn(folder)
  expect(code).toBe(1)
  expect(all).toContainEqual({
    check: 'folder',
    state: 'problem',
    message: `node.key: not owned by the owner of the folder; run chown -R 0:0 ${folder}`,
  })
})

it('reports a port on which the node of another folder answers', async () => {
  const { folder, close } = await usedFolder()
  await close()
  const server = createServer((_request, reply) => reply.end('{"status":true}'))
  onTestFinished(() => void server.close())
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const address = server.address()
  const PORT = String(typeof address === 'object' ? address?.port : '')
  const { code, of } = await statesIn(folder, { PORT })
  expect(code).toBe(1)
  expect(of('ports')).toMatchObject({
    state: 'problem',
    message: `ledger: port ${PORT} is used by another daicho`,
  })
})

it('reports a missing key, a folder that other users can read, and a port in use', async () => {
  const { folder, close } = await usedFolder()
  await close()
  renameSync(join(folder, 'node.key'), join(folder, 'elsewhere'))
  chmodSync(folder, 0o755)
  const port = 20_000 + (process.pid % 10_000)
  const release = await takePort('127.0.0.1', port)
  onTestFinished(release)
  const { code, of } = await statesIn(folder, { PORT: `${port}` })
  expect(code).toBe(1)
  expect(of('key')).toMatchObject({
    state: 'problem',
    message: 'node.key is missing: put the key of the store back',
  })
  expect(of('folder')).toMatchObject({ state: 'warning' })
  expect(of('ports')).toMatchObject({
    state: 'problem',
    message: `ledger: port ${port} is in use: choose another with --port`,
  })
})

it.each([
  [1_000, 999, true, 'ok'],
  [1_000, null, null, 'ok'],
  [1_000, 999, false, 'warning'],
  [1_000, 1_001, true, 'problem'],
] as const)(
  'for the clock at %s ms, the newest block at %s ms and NTP %s, the result is %s',
  (nowMs, newestMs, isSynchronised, state) => {
    expect(clockFinding(nowMs, newestMs, isSynchronised)).toMatchObject({ state })
  },
)

const MIB = 1024 ** 2
it.each([
  [64 * MIB - 1, 0, 'problem', '68 MB free, the store is 0 MB: free disk space'],
  [
    64 * MIB,
    0,
    'warning',
    '68 MB free, the store is 0 MB: an erasure or a backup may fail; free disk space',
  ],
  [
    1_024 * MIB - 1,
    0,
    'warning',
    '1.1 GB free, the store is 0 MB: an erasure or a backup may fail; free disk space',
  ],
  [1_024 * MIB, 512 * MIB, 'ok', '1.1 GB free, the store is 537 MB'],
  [
    1_024 * MIB,
    512 * MIB + 1,
    'warning',
    '1.1 GB free, the store is 537 MB: an erasure or a backup may fail; free disk space',
  ],
] as const)(
  'for %s free bytes and a store of %s bytes, the result is %s',
  (free, store, state, message) => {
    expect(diskFinding({ free, store })).toEqual({ check: 'disk', state, message })
  },
)

it.each([
  [null, 'ok', 'no limit on open files found'],
  [10_000, 'ok', 'at most 10000 open files'],
  [
    9_999,
    'warning',
    'at most 9999 open files, but a node can need 10000: raise ulimit -n (LimitNOFILE)',
  ],
] as const)('for a limit of %s open files, the result is %s', (limit, state, message) => {
  expect(fileLimitFinding(limit)).toEqual({ check: 'files', state, message })
})

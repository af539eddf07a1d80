import { chmodSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runHere } from '../../../test/support/command.ts'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from '../../ledger/core.ts'
import { checkClock, diskFinding } from '../actions/doctor.ts'
import { doctorCommand } from './doctor.ts'

/** Creates the folder of a node with one block. The node runs until `close` is called. */
async function usedFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-doctor-'))
  chmodSync(folder, 0o700)
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { service, close } = await openLedger({ folder, clock: systemClock })
  await service.write.createDatabase('fruit')
  return { folder, close }
}

async function statesIn(folder: string, variables: Readonly<Record<string, string>> = {}) {
  const args = ['--json', '--folder', folder]
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
  expect(running.of('node')?.message).toContain('no node answers at http://127.0.0.1:0: ')
  expect(running.of('key')).toMatchObject({ state: 'ok' })
  await close()
  const files = readdirSync(folder).sort()
  const stopped = await statesIn(folder)
  expect(stopped.code).toBe(0)
  expect(stopped.of('folder')).toMatchObject({ message: `${folder}, not in use` })
  expect(readdirSync(folder).sort()).toEqual(files)
})

it.each([
  [200, {}, 'ok', 'last verification: none, because VERIFY_EVERY is not set'],
  [200, { verification: { result: 'passed' } }, 'ok', 'last verification: passed'],
  [200, { verification: { result: 'failed' } }, 'problem', 'last verification: failed'],
  [503, { status: false, code: 'X', message: 'disk full' }, 'problem', /: disk full$/],
  [200, { status: false }, 'problem', /is not a node of daicho/],
])('asks the running node, which answers %s %j', async (status, reply, state, message) => {
  const { folder, close } = await usedFolder()
  onTestFinished(close)
  const { url } = await answering(status, JSON.stringify({ status: true, ...reply }))
  const { of } = await statesIn(folder, { PORT: new URL(url).port })
  expect(of('node')).toEqual({ check: 'node', state, message: expect.stringMatching(message) })
})

it('reports a missing key, a folder that other users can read, and a missing store', async () => {
  const { folder, close } = await usedFolder()
  await close()
  renameSync(join(folder, 'node.key'), join(folder, 'elsewhere'))
  chmodSync(folder, 0o755)
  const { code, of } = await statesIn(folder)
  expect(code).toBe(1)
  expect(of('key')).toMatchObject({
    state: 'problem',
    message: 'node.key is missing: put the key of the store back',
  })
  expect(of('folder')).toMatchObject({ state: 'warning' })
  rmSync(join(folder, 'ledger.db'))
  const lost = await statesIn(folder)
  expect([lost.code, lost.of('store')?.state]).toEqual([1, 'problem'])
  expect(lost.of('store')?.message).toMatch(/, with 1 signed blocks is missing or empty: /)
})

it.each([
  [1_000, 999, 'ok'],
  [1_000, 1_000, 'ok'],
  [1_000, 1_001, 'problem'],
] as const)(
  'for the clock at %s ms and the newest block at %s ms, the result is %s',
  (nowMs, newestMs, state) => {
    expect(checkClock(nowMs, newestMs)[1]).toBe(state)
  },
)

const MIB = 1024 ** 2
it.each([
  [64 * MIB - 1, 0, 'problem', '68 MB free, the store is 0 MB: free disk space'],
  [64 * MIB, 32 * MIB, 'ok', '68 MB free, the store is 34 MB'],
  [
    64 * MIB,
    32 * MIB + 1,
    'warning',
    '68 MB free, the store is 34 MB: an erasure or a backup may fail; free disk space',
  ],
] as const)(
  'for %s free bytes and a store of %s bytes, the result is %s',
  (free, store, state, message) => {
    expect(diskFinding({ free, store })).toEqual(['disk', state, message])
  },
)

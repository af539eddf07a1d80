import { chmodSync, chownSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { systemClock } from '../../base/clock.ts'
import { openLedger } from '../../ledger/core.ts'
import { takePort } from '../ports.ts'
import { clockFinding, doctorCommand } from './doctor.ts'

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

// `daicho restore`, killed again and again: whatever it leaves, the next one ends well.
import { copyFileSync, existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { runDaicho, startDaicho } from '../support/daicho.ts'
import { startLedgerNode, temporaryFolder, verifyFolder } from '../support/ledger-node.ts'

const KILLS = 20
const BLOCKS = 1_200
/** A restore of so many blocks takes about as long, from the first thing that it writes on. */
const KILL_WITHIN_MS = 800

it(`killed ${KILLS} times at random moments, it ends with every reply as it was`, async () => {
  const folder = temporaryFolder()
  const node = await startLedgerNode({ folder })
  const { serverId } = node.service
  await node.send('POST', '/api/fruit')
  for (let n = 1; n < BLOCKS; n += 1) {
    await node.send('POST', '/api/fruit', [{ id: `${n}`, n }, { text: 'x'.repeat(500) }])
  }
  await node.service.log.consistency(0, BLOCKS)
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const args = ['restore', '--from', node.url, '--serverid', `${serverId}`, '--json']
  const env = { SYSTEM_FOLDER: target, PEERS_ALLOW_PRIVATE: '1' }
  let killedInside = 0
  for (let n = 0; n < KILLS; n += 1) {
    const restore = startDaicho(args, env)
    let hasEnded = false
    void restore.ended.then(() => {
      hasEnded = true
    })
    while (!hasEnded && !existsSync(join(target, 'restore.partial'))) await delay(5)
    await delay(Math.random() * KILL_WITHIN_MS)
    restore.child.kill('SIGKILL')
    await restore.ended
    // Nothing that could be taken for the store of a node, unless it is all of it.
    if (existsSync(join(target, 'ledger.db'))) {
      expect(await verifyFolder(target)).toMatchObject({ blocks: BLOCKS, finding: null })
      rmSync(join(target, 'ledger.db'))
    } else killedInside += 1
  }
  expect(killedInside).toBeGreaterThan(0)
  const ended = await runDaicho(args, env)
  expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([
    0,
    { status: true, serverId, blocks: BLOCKS, entries: 2 * BLOCKS - 1 },
  ])
  expect(readdirSync(target).filter((name) => !name.startsWith('ledger.lock'))).toEqual([
    'ledger.db',
    'node.key',
  ])
  const restored = await startLedgerNode({ folder: target })
  for (const path of [
    '/api/dbs',
    '/api/fruit?docs=true',
    `/api/ledgers?serverid=${serverId}&proof=1`,
    `/api/ledgers/${serverId}/tile/0/000`,
    '/api/fruit/7/history',
  ]) {
    const [now, then] = [await restored.send('GET', path), await node.send('GET', path)]
    expect([path, now.status, now.text === then.text]).toEqual([path, 200, true])
  }
  expect((await restored.send('POST', '/api/fruit', { id: 'next' })).status).toBe(200)
  await Promise.all([restored.close(), node.close()])
}, 120_000)

it('what does not fit is refused with one line, and the folder stays as it was', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  const { serverId } = node.service
  const empty = temporaryFolder()
  const from = ['--from', node.url]
  const id = ['--serverid', `${serverId}`]
  const allowed = { SYSTEM_FOLDER: empty, PEERS_ALLOW_PRIVATE: '1' }
  for (const [args, env, code, line] of [
    [[...from, ...id], allowed, 78, /holds no key: put the node.key of server id \d+ there/],
    [[...id], allowed, 2, /--from/],
    [[...from, '--serverid', 'x'], allowed, 2, /server id/],
    [[...from, ...id], { PEERS_ALLOW_PRIVATE: '1' }, 78, /SYSTEM_FOLDER/],
  ] as const) {
    const ended = await runDaicho(['restore', ...args], env)
    expect([args, ended.code, ended.stdout]).toEqual([args, code, ''])
    expect(ended.stderr).toMatch(line)
  }
  expect(readdirSync(empty)).toEqual([])
  await node.close()
})

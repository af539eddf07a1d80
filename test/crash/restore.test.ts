// Kills `daicho restore` and `daicho import` again and again. After any kill, the next run succeeds.
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { runDaicho, startDaicho } from '../support/daicho.ts'
import {
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const KILLS = roundsOf(20)
/** Number of kills in each test without the key. KILLS is for the test with the key. */
const KILLS_MORE = roundsOf(12)
const BLOCKS = 700
/** Maximum delay before a kill, milliseconds. About the duration of a restore after its first write. */
const KILL_WITHIN_MS = 600
const CONTENT = Buffer.alloc(5 * 1024 * 1024, 'content of an attachment ')

/** A node with a chain of BLOCKS blocks and attachments, and the arguments of a restore from this node. */
interface Origin {
  readonly folder: string
  readonly node: LedgerNode
  readonly serverId: number
  readonly args: string[]
}

const remove: (() => unknown)[] = []
const folder = temporaryFolder((done) => remove.push(done))
/** All tests share this node and do not change it. */
let origin: Origin
beforeAll(async () => {
  const node = await startLedgerNode({ folder })
  remove.unshift(() => node.close())
  const { serverId } = node.service
  await node.send('POST', '/api/fruit')
  for (let n = 1; n < BLOCKS - 4; n += 1) {
    await node.send('POST', '/api/fruit', [{ id: `${n}`, n }, { text: 'x'.repeat(500) }])
  }
  await node.send('POST', '/api/fruit/7', { id: '7', changed: true })
  await node.send('DELETE', '/api/fruit/8')
  await node.send('PUT', '/api/fruit/7/attachments/large', CONTENT, { 'content-type': 'a/b' })
  await node.send('PUT', '/api/fruit/9/attachments/none', new Uint8Array())
  await node.service.log.consistency(0, BLOCKS)
  const args = ['restore', '--from', node.url, '--serverid', `${serverId}`, '--json']
  origin = { folder, node, serverId, args }
})
afterAll(async () => {
  for (const done of remove) await done()
})

/**
 * Starts the command `args` and kills it, `kills` times. Checks after each kill that the folder has no store or a
 * complete store, of which only blobs may be missing, and removes a complete store.
 */
async function killedAgainAndAgain(args: string[], target: string, kills: number): Promise<void> {
  const env = { SYSTEM_FOLDER: target, PEERS_ALLOW_PRIVATE: '1' }
  let killedInside = 0
  let withinMs = KILL_WITHIN_MS
  for (let n = 0; n < kills; n += 1) {
    const before = readdirSync(target).length
    const restore = startDaicho(args, env)
    let hasEnded = false
    void restore.ended.then(() => {
      hasEnded = true
    })
    while (!hasEnded && readdirSync(target).length === before) await delay(5)
    await delay(Math.random() * withinMs)
    restore.child.kill('SIGKILL')
    await restore.ended
    if (existsSync(join(target, 'ledger.db'))) {
      const { finding } = await verifyFolder(target)
      // The store moves into place before the blobs, which a repeated restore fetches.
      if (finding !== null) expect(finding.what).toMatch(/^blob [0-9a-f]{64} is missing$/)
      rmSync(join(target, 'ledger.db'))
      withinMs /= 2
    } else {
      killedInside += 1
      withinMs = Math.min(KILL_WITHIN_MS, withinMs * 1.5)
    }
  }
  expect(killedInside).toBeGreaterThan(0)
}

async function expectSame(one: LedgerNode, other: LedgerNode, paths: string[]): Promise<void> {
  for (const path of paths) {
    const [now, then] = [await one.send('GET', path), await other.send('GET', path)]
    expect([path, now.status, now.text === then.text]).toEqual([path, 200, true])
    expect(now.headers.get('content-type')).toBe(then.headers.get('content-type'))
  }
}

const DATABASES = [
  '/api/dbs',
  '/api/fruit?docs=true',
  '/api/fruit/7',
  '/api/fruit/7/attachments',
  '/api/fruit/7/attachments/large',
  '/api/fruit/9/attachments/none',
]

it(`a restore that was killed ${KILLS} times at random moments completes, and the node gives the same replies as before`, async () => {
  const { folder, node, serverId, args } = origin
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  await killedAgainAndAgain(args, target, KILLS)
  const ended = await runDaicho(args, { SYSTEM_FOLDER: target, PEERS_ALLOW_PRIVATE: '1' })
  expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([
    0,
    { status: true, serverId, blocks: BLOCKS, absent: 0 },
  ])
  expect(readdirSync(target).filter((name) => !name.startsWith('ledger.lock'))).toEqual([
    'attachments',
    'ledger.db',
    'node.key',
    'signed-head',
  ])
  expect(await verifyFolder(target)).toMatchObject({ blocks: BLOCKS, finding: null })
  const restored = await startLedgerNode({ folder: target })
  onTestFinished(() => restored.close())
  await expectSame(restored, node, [
    ...DATABASES,
    `/api/ledgers?serverid=${serverId}&proof=1`,
    `/api/ledgers/${serverId}/tile/0/000`,
    '/api/fruit/7/history',
  ])
  expect((await restored.send('POST', '/api/fruit', { id: 'next' })).status).toBe(200)
})

it(`a restore without the key, killed ${KILLS_MORE} times, restores the data into a new chain`, async () => {
  const { node, serverId, args } = origin
  const target = temporaryFolder()
  const env = { SYSTEM_FOLDER: target, PEERS_ALLOW_PRIVATE: '1' }
  const withKey = [...args, '--key', node.service.log.verifierKey]
  await killedAgainAndAgain(withKey, target, KILLS_MORE)
  const ended = await runDaicho(withKey, env)
  expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)])
  const done = JSON.parse(ended.stdout)
  expect(done).toMatchObject({ status: true, mirrored: serverId, absent: 0 })
  expect(done.serverId).not.toBe(serverId)
  expect(done.items).toBe(2 * (BLOCKS - 5) - 1)
  // A second run has nothing to do, even if the chain has grown.
  const again = await runDaicho(withKey, env)
  expect([again.code, JSON.parse(again.stdout).headId]).toEqual([0, done.headId])
  for (const folder of [target, join(target, 'mirrors', `${serverId}`)]) {
    expect(await verifyFolder(folder)).toMatchObject({ finding: null })
  }
  const restored = await startLedgerNode({ folder: target })
  onTestFinished(() => restored.close())
  await expectSame(restored, node, [
    ...DATABASES,
    // The restored node has the old chain as a mirror.
    `/api/ledgers?serverid=${serverId}&proof=1`,
    `/api/ledgers/${serverId}/checkpoint`,
    `/api/ledgers/${serverId}/vkey`,
    `/api/ledgers/${serverId}/tile/0/000`,
  ])
  // The new chain contains the current data, and accepts changes.
  expect((await restored.send('GET', '/api/fruit/7/history')).json.history).toHaveLength(1)
  expect((await restored.send('POST', '/api/fruit', { id: 'next' })).status).toBe(200)
  const { json } = await restored.send('GET', `/api/ledgers?serverid=${done.serverId}&limit=1`)
  expect(json.ledgers[0].body[0]).toEqual({
    serverid: done.serverId,
    method: 'create_db',
    db: 'fruit',
  })
})

it(`an import without the key, killed ${KILLS_MORE} times, imports the data into a new chain`, async () => {
  const { folder, node, serverId } = origin
  const file = join(temporaryFolder(), 'chain.jsonl')
  const exported = await runDaicho(['export', folder, '--out', file], {})
  expect(exported).toMatchObject({ code: 0 })
  const target = temporaryFolder()
  const env = { SYSTEM_FOLDER: target }
  const args = ['import', file, '--json', '--key', node.service.log.verifierKey]
  // An export does not contain the bytes of attachments, so they are copied to the folder of the mirror.
  const mirror = join(target, 'mirrors', `${serverId}`)
  cpSync(join(folder, 'attachments'), join(mirror, 'attachments'), { recursive: true })
  rmSync(join(mirror, 'attachments', 'incoming'), { recursive: true })
  await killedAgainAndAgain(args, target, KILLS_MORE)
  // Creates the state after a kill during the copy of a blob.
  const arriving = join(target, 'attachments', 'incoming')
  mkdirSync(arriving, { recursive: true })
  writeFileSync(join(arriving, '1'), 'half of it')
  const ended = await runDaicho(args, env)
  expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)])
  const done = JSON.parse(ended.stdout)
  expect(done).toMatchObject({ status: true, mirrored: serverId, absent: 0 })
  const again = await runDaicho(args, env)
  expect([again.code, JSON.parse(again.stdout).headId]).toEqual([0, done.headId])
  for (const at of [target, mirror]) expect(await verifyFolder(at)).toMatchObject({ finding: null })
  expect(existsSync(join(arriving, '1'))).toBe(false)
  const imported = await startLedgerNode({ folder: target })
  onTestFinished(() => imported.close())
  await expectSame(imported, node, [...DATABASES, `/api/ledgers?serverid=${serverId}&proof=1`])
  const head = await imported.send('GET', `/api/ledgers/${serverId}/checkpoint`)
  expect([head.status, head.json.code]).toEqual([503, 'LOG_BEHIND'])
})

it('refuses a restore with wrong arguments or without the right key, and leaves the folder unchanged', async () => {
  const node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  const { serverId } = node.service
  const empty = temporaryFolder()
  const from = ['--from', node.url]
  const id = ['--serverid', `${serverId}`]
  const vkey = node.service.log.verifierKey
  const stranger = temporaryFolder()
  const another = await startLedgerNode({ folder: stranger })
  const other = another.service.log.verifierKey
  await another.close()
  rmSync(join(stranger, 'ledger.db'))
  const taken = { SYSTEM_FOLDER: stranger, PEERS_ALLOW_PRIVATE: '1' }
  const allowed = { SYSTEM_FOLDER: empty, PEERS_ALLOW_PRIVATE: '1' }
  for (const [args, env, code, line] of [
    [
      [...from, ...id],
      allowed,
      78,
      /contains no key: copy the node.key of server id \d+ into the folder/,
    ],
    [[...from, ...id, '--key', 'x'], allowed, 2, /vkey is not the verifier key of a node/],
    [[...from, ...id, '--key', other], allowed, 2, /does not belong to server id/],
    [[...from, ...id, '--key', vkey], taken, 78, /choose an empty folder/],
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

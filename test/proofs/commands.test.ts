// `daicho verify` with proof files, with evidence, and with the log of a running node; and an independent
// verification script.
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { runHere } from '../support/command.ts'
import {
  HandClock,
  type LedgerNode,
  startLedgerNode,
  temporaryFolder,
} from '../support/ledger-node.ts'
import { backupOf, mirror, PEERS } from '../support/peers.ts'
import { hasPython, pythonNote } from '../support/python.ts'
import { TestLog } from '../support/test-log.ts'
import { until } from '../support/until.ts'

const SCRIPT = fileURLToPath(
  new URL('../../clients/python/src/daicho/verify_proof.py', import.meta.url),
)

const runVerify = (args: readonly string[]) => runHere(verifyCommand(), args)

const vkeyOf = async (node: LedgerNode) =>
  (await node.send('GET', `/api/ledgers/${node.service.serverId}/vkey`)).text.trim()

/** Starts a node with a few blocks, and saves a proof file of one of its items. */
async function proven() {
  const node = await startLedgerNode({ folder: temporaryFolder() })
  await node.send('POST', '/api/fruit')
  for (let n = 0; n < 5; n += 1) await node.send('POST', '/api/fruit', { id: `${n}` })
  const item = {
    id: '李',
    price: 0.1,
    note: 'a "quoted"\nline €',
    list: [1e21, null, { b: 1, a: 2 }],
  }
  await node.send('POST', '/api/fruit', [{ id: 'fig' }, item, { id: 'kaki' }])
  const text = (await node.send('GET', `/api/fruit/${encodeURIComponent('李')}/proof`)).text
  const file = join(temporaryFolder(), 'entry.tlog-proof')
  writeFileSync(file, text)
  return { node, item, file, text, vkey: await vkeyOf(node) }
}

it('verifies a proof file with only the key, and reports a changed file', async () => {
  const { node, item, file, text, vkey } = await proven()
  await node.close()
  const json = await runVerify([file, '--key', vkey, '--json'])
  expect([json.code, json.stderr]).toEqual([0, ''])
  expect(JSON.parse(json.stdout)).toMatchObject({
    ...{ status: true, erased: false, height: 6, index: 1, size: 7, timestamp: 1_800_000_000_000 },
    entry: { method: 'create_item', db: 'fruit', item },
  })
  const keyFile = join(temporaryFolder(), 'vkey')
  writeFileSync(keyFile, `${vkey}\n`)
  const words = await runVerify([file, '--key', keyFile])
  expect([words.code, words.stdout]).toEqual([0, expect.stringMatching(/^The proof is valid\.\n/)])

  writeFileSync(file, text.replace('index 6', 'index 5'))
  const wrong = await runVerify([file, '--key', vkey, '--json'])
  expect(wrong.code).toBe(1)
  expect(JSON.parse(wrong.stdout)).toMatchObject({ status: false, code: 'PROOF_WRONG' })
  expect((await runVerify([file, '--key', 'x+y'])).code).toBe(2)
  const keyless = await runVerify([file])
  expect([keyless.code, keyless.stderr]).toEqual([2, expect.stringContaining('--key')])
})

it('refuses invalid addresses, and flags that do not apply to the kind of input', async () => {
  const folder = temporaryFolder()
  const [proof, evidence] = [join(folder, 'fig.tlog-proof'), join(folder, 'evidence.json')]
  writeFileSync(proof, 'c2sp.org/tlog-proof@v1\n')
  writeFileSync(evidence, '{"notes":[]}')
  const unused = { state: 'x', token: 'x', erasure: 'x', witness: 'x', quorum: '1', policy: 'x' }
  const kinds = [
    [folder, 'a folder or an export', { key: 'x', chain: 'x', ...unused }],
    ['-', 'a folder or an export', { key: 'x', ...unused }],
    [evidence, 'evidence', unused],
    [proof, 'a proof file', { state: 'x', token: 'x', chain: 'x' }],
    ['http://127.0.0.1:1', 'a URL', { erasure: 'x' }],
  ] as const
  const usage = (line: string) => ({ code: 2, stdout: '', stderr: `daicho: ${line}\n` })
  for (const [target, kind, flags] of kinds) {
    for (const [flag, value] of Object.entries(flags)) {
      const run = await runVerify([target, `--${flag}`, value])
      expect(run).toMatchObject(usage(`--${flag} does not apply to ${kind}`))
    }
  }
  expect(await runVerify(['http://'])).toMatchObject({
    ...{ code: 2, stdout: '', stderr: expect.stringContaining('"http://" is not the URL of a') },
  })
  // No node listens on this port, so a request would give another message.
  expect(await runVerify(['http://127.0.0.1:1', '--key', 'x'])).toMatchObject(
    usage('--key is neither a verifier key nor a file that contains one'),
  )
})

it('refuses a file that is too long with a one-line message', async () => {
  const folder = temporaryFolder()
  const [proof, long] = [join(folder, 'fig.tlog-proof'), join(folder, 'long')]
  writeFileSync(proof, 'c2sp.org/tlog-proof@v1\n')
  writeFileSync(long, 'c2sp.org/tlog-proof@v1\n')
  // The file is longer than the longest string of JavaScript.
  truncateSync(long, 2 ** 30)
  const usage = {
    code: 2,
    stdout: '',
    stderr: `daicho: ${long} is ${2 ** 30} bytes long; the maximum is 1048576\n`,
  }
  for (const args of [
    ['--policy', long],
    ['--key', long],
    ['--witness', long, '--key', 'x'],
  ]) {
    expect(await runVerify([proof, ...args])).toEqual(usage)
  }
  const { vkey } = new TestLog(0, 'unused')
  expect(await runVerify([long, '--key', vkey])).toMatchObject({
    code: 1,
    stdout: 'DIFFERENCE the proof file has more than 67108864 bytes\n',
  })
})

it('verifies evidence of two histories with only the key', async () => {
  const folder = temporaryFolder()
  const before = await startLedgerNode({ folder })
  await before.send('POST', '/api/fruit')
  await before.close()
  const twin = await startLedgerNode({ folder: backupOf(folder) })
  const node = await startLedgerNode({ folder })
  const keeper = await startLedgerNode({ peers: PEERS })
  for (const id of ['fig', 'plum']) await node.send('POST', '/api/fruit', { id })
  await twin.send('POST', '/api/fruit', { id: 'other' })
  await mirror(keeper, node)
  const peers = async () => (await keeper.send('GET', '/api/config/peers')).json.peers
  await until('the peer has mirrored 3 blocks', async () => (await peers())[0].blocks === 3)
  await mirror(keeper, node, twin)
  await until('the peer shows evidence', async () => (await peers())[0].evidence !== null)
  const [{ evidence }] = await peers()
  const vkey = await vkeyOf(node)
  const foreign = await vkeyOf(keeper)
  const idAt1 = async ({ service, send }: LedgerNode) => {
    const path = `/api/ledgers?serverid=${service.serverId}&offset=1&limit=1`
    return (await send('GET', path)).json.ledgers[0].id
  }
  const ids = [await idAt1(node), await idAt1(twin)]
  await Promise.all([node.close(), twin.close(), keeper.close()])

  const file = join(temporaryFolder(), 'evidence.json')
  const verify = (content: object, ...more: string[]) => {
    writeFileSync(file, JSON.stringify(content, null, 2))
    return runVerify([file, ...more])
  }
  const json = await verify(evidence, '--key', vkey, '--json')
  expect([json.code, JSON.parse(json.stdout)]).toMatchObject([
    0,
    { status: true, height: 1, sizes: [3, 2], ids },
  ])
  const words = await verify(evidence, '--key', vkey)
  expect(words.stdout).toContain(
    `The evidence is valid: two different blocks of height 1 are signed.\nkey        ${vkey}\n`,
  )
  const { notes, proof } = evidence
  for (const [content, key, code] of [
    [evidence, foreign, 'NOTE_UNSIGNED'],
    [{ ...evidence, notes: [notes[0], notes[0]] }, vkey, 'PROOF_WRONG'],
    [{ ...evidence, proof: { ...proof, height: 0 } }, vkey, 'PROOF_WRONG'],
    [{ ...evidence, proof: 'none' }, vkey, 'PROOF_MALFORMED'],
    [{ ...evidence, proof: null }, vkey, 'PROOF_WRONG'],
  ] as const) {
    const wrong = await verify(content, '--key', key, '--json')
    expect([wrong.code, JSON.parse(wrong.stdout)]).toMatchObject([1, { status: false, code }])
  }
  expect((await verify(evidence)).code).toBe(2)
})

it('audits the log of a node that requires tokens', async () => {
  const tokens = await openTokens({ clock: new HandClock(), folder: null, secret: null })
  const tokenFor = async (scopes: readonly string[]) =>
    (await issueApiToken(tokens, { subject: 'auditor', scopes, lifeSeconds: 3_600 })).token
  const node = await startLedgerNode({ tokens })
  const state = join(temporaryFolder(), 'state.json')
  const audit = (...more: string[]) => runVerify([node.url, '--state', state, '--json', ...more])
  const refused = await audit()
  expect([refused.code, refused.stdout, refused.stderr]).toEqual([
    2,
    '',
    expect.stringContaining('the node requires a valid token: give it with --token'),
  ])
  const narrow = await audit('--token', await tokenFor(['db:fruit:read']))
  expect([narrow.code, narrow.stderr]).toEqual([
    2,
    expect.stringContaining('the status of the reply is 403'),
  ])
  const token = await tokenFor(['ledger:read'])
  const file = join(temporaryFolder(), 'token')
  writeFileSync(file, `${token}\n`)
  for (const tokenFlag of [token, file]) {
    const { code, stdout } = await audit('--token', tokenFlag)
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      expect.objectContaining({ status: true, blocks: 0 }),
    ])
  }
  await node.close()
})

it('audits a log by its tiles, stores the verified head, and detects a fork and a rollback', async () => {
  const folder = temporaryFolder()
  let node = await startLedgerNode({ folder })
  const state = join(temporaryFolder(), 'deep', 'state.json')
  // Without `--state`, the verified head is stored in the home folder, in a file named after the address.
  const home = { HOME: temporaryFolder() }
  const atHome = async () => (await runHere(verifyCommand(), [node.url], home)).stdout
  const vkey = await vkeyOf(node)
  const known = [
    'The log is valid: 0 blocks, 0 of them new.',
    `server id  ${node.service.serverId}`,
    'head       (none)',
    `key        ${vkey}`,
  ].join('\n')
  const first = [
    'This is the first audit with this state file, so there was no earlier head to compare: ' +
      'compare the head with the head of another auditor.',
    'The key was taken from the node itself: compare the key with another source.',
  ].join('\n')
  expect(await atHome()).toBe(`${known}\n${first}\n`)
  expect(await atHome()).toBe(`${known}\n`)
  const audit = async (url = node.url) => {
    const { code, stdout } = await runVerify([url, '--state', state, '--json'])
    return [code, JSON.parse(stdout)]
  }
  const isFirst = { status: true, first: true, blocks: 0, added: 0 }
  expect(await audit()).toEqual([0, expect.objectContaining(isFirst)])
  /** Waits until the node has signed a log of `blocks` blocks, because it may first serve an older checkpoint. */
  const signed = async (blocks: number) => {
    const path = `/api/ledgers/${node.service.serverId}/checkpoint`
    const text = async () => (await node.send('GET', path)).text
    await expect.poll(text).toContain(`\n${blocks}\n`)
  }
  for (let n = 0; n < 260; n += 1) await node.send('POST', `/api/db${n}`)
  await signed(260)
  expect(await audit()).toEqual([
    0,
    expect.objectContaining({ first: false, blocks: 260, added: 260 }),
  ])
  await node.send('POST', '/api/more')
  await signed(261)
  expect(await audit()).toEqual([0, expect.objectContaining({ blocks: 261, added: 1 })])
  const words = await runVerify([`${node.url}/`, '--state', state])
  expect(words.stdout).toMatch(/^The log is valid: 261 blocks, 0 of them new\./)
  const { serverId } = node.service
  await node.close()

  // Another history under the same key. Its log is first shorter than the audited log, then longer.
  const other = join(temporaryFolder(), 'data')
  mkdirSync(other)
  copyFileSync(join(folder, 'node.key'), join(other, 'node.key'))
  node = await startLedgerNode({ folder: other })
  expect(node.service.serverId).toBe(serverId)
  expect(await audit()).toEqual([1, expect.objectContaining({ code: 'LOG_ROLLED_BACK' })])
  const back = await runVerify([node.url, '--state', state])
  expect(back.stdout).toMatch(/^DIFFERENCE [^\n]+\n\(an earlier audit verified 261 blocks\)\n$/)
  for (let n = 0; n < 262; n += 1) await node.send('POST', `/api/fork${n}`)
  await signed(262)
  expect(await audit()).toEqual([1, expect.objectContaining({ status: false, code: 'LOG_FORKED' })])
  await node.close()

  // The audited history still verifies.
  node = await startLedgerNode({ folder })
  expect(await audit()).toEqual([0, expect.objectContaining({ blocks: 261, added: 0 })])
  const mistaken = await runVerify([`${node.url}/api`, '--state', state])
  expect([mistaken.code, mistaken.stdout]).toEqual([2, ''])
  writeFileSync(state, '{}')
  expect((await runVerify([node.url, '--state', state])).code).toBe(78)
  await node.close()
  expect((await runVerify([node.url, '--state', state])).code).toBe(2)
})

it('keeps the state of a faster audit that has verified more blocks', async () => {
  const node = await startLedgerNode()
  const path = `/api/ledgers/${node.service.serverId}/checkpoint`
  const signed = async (blocks: number) => {
    const text = async () => (await node.send('GET', path)).text
    await expect.poll(text).toContain(`\n${blocks}\n`)
    return text()
  }
  await node.send('POST', '/api/one')
  const slow = await signed(1)
  await node.send('POST', '/api/two')
  await signed(2)
  const [newer, state] = [join(temporaryFolder(), 'newer'), join(temporaryFolder(), 'state')]
  expect((await runVerify([node.url, '--state', newer])).code).toBe(0)
  const server = createServer(async ({ url = '' }, response) => {
    if (url === path) copyFileSync(newer, state)
    const reply = await fetch(node.url + url)
    response.end(url === path ? slow : Buffer.from(await reply.arrayBuffer()))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ended = await runVerify([url, '--state', state])
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('valid: 1 blocks') })
  expect(readFileSync(state, 'utf8')).toBe(readFileSync(newer, 'utf8'))
  await node.close()
})

it('reports a node whose whole history was replaced under another key, without any flag', async () => {
  const home = { HOME: temporaryFolder() }
  let node = await startLedgerNode()
  const address = createServer(async ({ url = '' }, response) => {
    const reply = await fetch(node.url + url)
    response.writeHead(reply.status).end(await reply.bytes())
  })
  await once(address.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void address.close())
  const { port } = address.address() as AddressInfo
  const audit = () => runHere(verifyCommand(), [`http://127.0.0.1:${port}`, '--json'], home)
  expect(JSON.parse((await audit()).stdout)).toMatchObject({ status: true, first: true })
  const { serverId } = node.service
  await node.close()
  node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  const { code, stdout } = await audit()
  const result = JSON.parse(stdout)
  expect([code, result]).toMatchObject([1, { code: 'CHECKPOINT_FOREIGN', first: false, blocks: 0 }])
  expect(result.what).toContain(
    `earlier audits in ${home.HOME}/.daicho/audit-http%3A%2F%2F127.0.0.1`,
  )
  expect(result.what).toContain(`are of daicho/${serverId}: remove this file`)
  await node.close()
})

it('the independent Python script has at most 190 lines', () => {
  expect(readFileSync(SCRIPT, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(190)
})

it('reports an entry as erased only if its erasure is proven', async () => {
  const node = await startLedgerNode({ folder: temporaryFolder() })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'plum', price: 80 })
  await node.send('PATCH', '/api/fruit/plum', { price: 85 })
  await node.send('POST', '/api/fruit/plum/erase')
  const vkey = await vkeyOf(node)
  const folder = temporaryFolder()
  const proofOf = async (position: string) => {
    const file = join(folder, position)
    writeFileSync(file, (await node.send('GET', `/api/fruit/plum/proof?position=${position}`)).text)
    return file
  }
  const [reduced, shown, erasure] = [
    await proofOf('1.0'),
    await proofOf('2.0'),
    await proofOf('3.0'),
  ]
  await node.close()

  const verify = async (...args: string[]) => {
    const { code, stdout } = await runVerify([...args, '--key', vkey])
    return [code, stdout.split('\n')[0]]
  }
  expect(await verify(reduced)).toEqual([
    0,
    'The proof is valid, but shows only the commitment of the entry, not the content.',
  ])
  const proven = [0, 'The entry was erased by entry 3.0; its commitment is intact.']
  expect(await verify(reduced, '--erasure', erasure)).toEqual(proven)
  for (const [file, other] of [
    [reduced, shown],
    [shown, erasure],
  ] as const) {
    const position = file === shown ? '2.0' : '1.0'
    const difference = `DIFFERENCE ${other} does not prove that entry ${position} was erased`
    expect(await verify(file, '--erasure', other)).toEqual([1, difference])
  }
  const json = async (...args: string[]) =>
    JSON.parse((await runVerify([...args, '--key', vkey, '--json'])).stdout)
  expect(await json(reduced)).toMatchObject({ status: true, erased: false, entry: null })
  expect(await json(reduced, '--erasure', erasure)).toMatchObject({ status: true, erased: true })
})

it.skipIf(!hasPython)(
  `an independent Python script verifies a proof, and detects every changed byte${pythonNote}`,
  async () => {
    const { node, item, file, text, vkey } = await proven()
    await node.close()
    const verify = (key = vkey) => spawnSync('python3', [SCRIPT, file, key], { encoding: 'utf8' })
    const whole = verify()
    expect([whole.status, whole.stderr]).toEqual([0, ''])
    expect(JSON.parse(whole.stdout)).toMatchObject({ item })

    const extra = text.indexOf('extra ') + 6
    const lines = text.split('\n')
    const changes = [
      ...[40, 200, 600].map((at) => {
        const changed = text.charAt(extra + at) === 'A' ? 'B' : 'A'
        return text.slice(0, extra + at) + changed + text.slice(extra + at + 1)
      }),
      text.replace('index 6', 'index 5'),
      lines.toSpliced(3, 1).join('\n'),
      lines.toSpliced(3, 0, lines[3] ?? '').join('\n'),
      text.replace(/\n7\n/, '\n8\n'),
      text.replace(/(— \S+ .{20})(.)/, (_, head, unit) => `${head}${unit === 'A' ? 'B' : 'A'}`),
    ]
    const [signature = ''] = /— .*\n/.exec(text) ?? []
    changes.push(
      `${text}\n`,
      text.trimEnd(),
      `${text}${signature}`,
      `${text}${signature.replace(/.{9}\n/, 'AAAAAAAA=\n')}`,
      text.replace('index 6', 'index 06'),
      text.replace(/extra (\S+)/, (_, extra) => `extra ${extra}\u0020`),
      `\ufeff${text}`,
    )
    for (const changed of changes) {
      expect(changed).not.toBe(text)
      writeFileSync(file, changed)
      const { status, stderr, stdout } = verify()
      expect([status, stdout]).toEqual([1, ''])
      expect(stderr).toMatch(/^DIFFERENCE: [^\n]+\n$/)
      // `verify` treats a file that starts with a byte order mark as an export, and rejects it.
      const code = changed.startsWith('\ufeff') ? 2 : 1
      expect((await runVerify([file, '--key', vkey])).code).toBe(code)
    }
    writeFileSync(file, text)
    const other = await startLedgerNode()
    expect(verify(await vkeyOf(other)).status).toBe(1)
    await other.close()
    expect(execFileSync('python3', [SCRIPT, file, vkey], { encoding: 'utf8' })).toContain('李')
  },
)

// Cosignatures of witnesses, as verified by `daicho verify` and the client.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { parseVerifierKeys, parseWitness } from '../../src/ledger/core.ts'
import { runDaicho } from '../support/daicho.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { TestLog } from '../support/test-log.ts'
import { until } from '../support/until.ts'

const witnessKeyOf = async (node: LedgerNode) =>
  (await node.send('GET', '/api/ledgers/witness/vkey')).text.trim()

/** Starts a node with one witness, and creates the key of a second witness that cosigns nothing. */
async function cosignedNode() {
  const folder = temporaryFolder()
  const first = await startLedgerNode({ folder })
  const { verifierKey: vkey } = first.service.log
  const { serverId } = first.service
  await first.close()
  const witness = await startLedgerNode({ witnessOf: parseVerifierKeys([vkey]) })
  const stranger = await startLedgerNode()
  const witnessKey = await witnessKeyOf(witness)
  const node = await startLedgerNode({
    folder,
    witnesses: {
      witnesses: [parseWitness(`${witnessKey} ${witness.url}/api/ledgers/witness`)],
      allowPrivate: true,
      report: () => {},
    },
  })
  onTestFinished(async () => {
    for (const one of [node, witness, stranger]) await one.close()
  })
  await node.send('POST', '/api/fruit')
  await node.send('POST', '/api/fruit', { id: 'fig' })
  // The node writes no more blocks, so every later reply has the cosignature.
  await until('the last block is cosigned', async () => {
    const { text } = await node.send('GET', `/api/ledgers/${serverId}/checkpoint`)
    return /^daicho\/\d+\n2\n/.test(text) && text.includes(`— ${witnessKey.split('+')[0]} `)
  })
  return { node, vkey, serverId, witnessKey, strangerKey: await witnessKeyOf(stranger) }
}

it('accepts a proof file and the log of a node with the quorum of a policy, and refuses both without the quorum', async () => {
  const { node, vkey, serverId, witnessKey, strangerKey } = await cosignedNode()
  const folder = temporaryFolder()
  const [proof, policy] = [join(folder, 'fig.tlog-proof'), join(folder, 'policy')]
  const state = join(folder, 'state')
  writeFileSync(proof, (await node.send('GET', '/api/fruit/fig/proof')).text)
  const both = ['--witness', witnessKey, '--witness', strangerKey]
  const [witnessName = ''] = witnessKey.split('+')
  const missed = `DIFFERENCE the checkpoint lacks the quorum of witnesses: 1 of 2 have cosigned it (${witnessName})`
  const policyText = (quorum: string) =>
    `log ${vkey}\nwitness a ${witnessKey}\nwitness b ${strangerKey}\n` +
    `group any any a b\nquorum ${quorum}\n`
  const verify = async (...args: string[]) => {
    const { code, stdout, stderr } = await runDaicho(['verify', ...args])
    return { code, stderr, first: stdout.split('\n')[0], stdout }
  }
  for (const target of [[proof], [node.url, '--state', state]]) {
    const withKey = [...target, '--key', vkey]
    const valid = await verify(...withKey, ...both, '--quorum', '1')
    expect([valid.code, valid.stderr]).toEqual([0, expect.any(String)])
    expect(valid.stdout).toContain(`\nwitness    ${witnessName}, 2027-01-15T08:00:00.000Z\n`)
    expect(await verify(...withKey, ...both)).toMatchObject({ code: 1, first: missed })
    // The policy contains the key of the log, so `--key` is not needed.
    writeFileSync(policy, policyText('any'))
    expect(await verify(...target, '--policy', policy)).toMatchObject({ code: 0 })
    writeFileSync(policy, policyText('b'))
    const json = await verify(...target, '--policy', policy, '--json')
    expect([json.code, JSON.parse(json.stdout)]).toMatchObject([1, { code: 'QUORUM_MISSED' }])
    writeFileSync(policy, policyText('any').replace(vkey, new TestLog(1, 'other').vkey))
    const usage = (message: string) => ({ code: 2, stdout: '', stderr: `daicho: ${message}\n` })
    expect(await verify(...target, '--policy', policy)).toMatchObject(
      usage(`the policy does not list the log daicho/${serverId}`),
    )
    writeFileSync(policy, 'quorum x\n')
    expect(await verify(...target, '--policy', policy)).toMatchObject(
      usage(
        `--policy ${policy}: line 1 of the policy: the quorum must be none, or a witness or group that an earlier line defines`,
      ),
    )
    expect(await verify(...withKey, '--policy', policy, ...both)).toMatchObject(
      usage('--policy cannot be combined with --witness and --quorum'),
    )
    expect(await verify(...withKey, '--quorum', '1')).toMatchObject(
      usage(
        '--quorum must be an integer of 1 or more, and needs --witness for each key that may cosign',
      ),
    )
    expect(await verify(...withKey, '--witness', vkey)).toMatchObject({ code: 2, stdout: '' })
  }
  const json = await verify(proof, '--key', vkey, '--witness', witnessKey, '--json')
  expect(JSON.parse(json.stdout).witnesses).toEqual([
    { name: witnessName, timestamp: 1_800_000_000 },
  ])
  expect(await verify(folder, ...both)).toMatchObject({ code: 2 })
})

it('the client accepts reads only with a checkpoint that has the quorum', async () => {
  const { node, vkey, witnessKey, strangerKey } = await cosignedNode()
  const checkpoint = { get: () => null, set: () => {} }
  const clientWith = (rules: object) =>
    new LedgerClient(node.url, { verify: { key: vkey, checkpoint, ...rules } })
  const read = (rules: object) => clientWith(rules).database('fruit').read('fig')
  expect(await read({ witnesses: [witnessKey] })).toMatchObject({ item: { id: 'fig' } })
  expect(await read({ witnesses: [witnessKey, strangerKey], quorum: 1 })).toMatchObject({
    item: { id: 'fig' },
  })
  expect(await read({ policy: `witness a ${witnessKey}\nquorum a` })).toMatchObject({
    item: { id: 'fig' },
  })
  await expect(read({ witnesses: [witnessKey, strangerKey] })).rejects.toMatchObject({
    code: 'QUORUM_MISSED',
  })
  expect(() => clientWith({ witnesses: [vkey] })).toThrow(TypeError)
  expect(() => clientWith({ policy: 'quorum' })).toThrow(TypeError)
  expect(() => clientWith({ quorum: 1 })).toThrow(TypeError)
})

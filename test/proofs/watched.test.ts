// Wrong states: a node whose state file was changed signs a state that is not the one of its chain. Its mirrors, and
// everyone with the chain, find this.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { exportCommand } from '../../src/cli/commands/export.ts'
import { verifyCommand } from '../../src/cli/commands/verify.ts'
import { runHere } from '../support/command.ts'
import { hasState, hideItem } from '../support/hidden-items.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { mirror, PEERS } from '../support/peers.ts'
import { until } from '../support/until.ts'

const verify = (...args: string[]) => runHere(verifyCommand(), args)

async function text(node: LedgerNode, path: string): Promise<string> {
  return (await node.send('GET', path)).text
}

async function withFruit(folder: string): Promise<LedgerNode> {
  const node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit')
  for (const id of ['fig', 'plum']) await node.send('POST', '/api/fruit', { id })
  await text(node, `/api/ledgers/${node.service.serverId}/state`)
  return node
}

/** Starts a node that signs a state without item `fig`. */
async function hiding(folder: string): Promise<LedgerNode> {
  await (await withFruit(folder)).close()
  hideItem(folder, 'fruit', 'fig')
  const node = await startLedgerNode({ folder })
  onTestFinished(() => node.close())
  await node.send('POST', '/api/fruit', { id: 'pear' })
  return node
}

it('a mirror recomputes the signed states of its peer, keeps evidence of a wrong one, and copies on', async () => {
  const folders = [temporaryFolder(), temporaryFolder()] as const
  const origin = await withFruit(folders[0])
  const keeper = await startLedgerNode({ folder: folders[1], peers: PEERS })
  await mirror(keeper, origin)
  const { serverId } = origin.service
  const copy = join(folders[1], 'mirrors', `${serverId}`)
  const peer = async () => (await keeper.send('GET', '/api/config/peers')).json.peers.at(-1)
  await until('the mirror has compared a state', async () => hasState(copy))
  expect((await verify(copy)).code).toBe(0)
  expect(await peer()).toMatchObject({ state: 'current', evidence: null })
  await origin.close()

  hideItem(folders[0], 'fruit', 'fig')
  const wrong = await startLedgerNode({ folder: folders[0] })
  onTestFinished(() => wrong.close())
  await wrong.send('POST', '/api/fruit', { id: 'pear' })
  await mirror(keeper, wrong)
  const what = 'the signed state is not the state of the first 4 blocks'
  await until('the mirror has evidence', async () => (await peer()).evidence !== null)
  await wrong.send('POST', '/api/fruit', { id: 'nut' })
  await until('the mirror copies on', async () => (await peer()).blocks === 5)
  await until('the peer fails', async () => (await peer()).state === 'failing')
  const { evidence, error } = await peer()
  expect([error, evidence.what]).toEqual([{ code: 'STATE_WRONG', message: what }, what])
  expect((await keeper.send('GET', '/readyz')).json.frozen).toBeUndefined()

  const vkey = (await text(wrong, `/api/ledgers/${serverId}/vkey`)).trim()
  const file = join(temporaryFolder(), 'evidence.json')
  const exported = join(temporaryFolder(), 'chain')
  expect((await runHere(exportCommand(), [copy, '--out', exported])).code).toBe(0)
  writeFileSync(file, JSON.stringify(evidence))
  for (const chain of [copy, folders[0], exported]) {
    const run = await verify(file, '--key', vkey, '--chain', chain)
    expect([run.code, run.stdout]).toEqual([0, expect.stringContaining(`is valid: ${what}.`)])
  }
  expect(await verify(file, '--key', vkey)).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('give a folder or an export with --chain') },
  })
  const foreign = await verify(file, '--key', vkey, '--chain', folders[1])
  expect([foreign.code, foreign.stdout]).toEqual([
    1,
    'DIFFERENCE the chain is not the one of the signed state\n',
  ])
  await keeper.close()
})

it('`daicho verify` of a folder and of a state proof with the chain finds a wrong state', async () => {
  const folder = temporaryFolder()
  const right = await withFruit(folder)
  const vkey = (await text(right, `/api/ledgers/${right.service.serverId}/vkey`)).trim()
  const file = join(temporaryFolder(), 'fig.state-proof')
  writeFileSync(file, await text(right, '/api/fruit/fig/proof?current=1'))
  expect((await verify(file, '--key', vkey, '--chain', folder)).code).toBe(0)
  await right.close()
  expect((await verify(folder)).code).toBe(0)

  const node = await hiding(folder)
  writeFileSync(file, await text(node, '/api/fruit/fig/proof?current=1'))
  expect((await verify(file, '--key', vkey)).stdout).toContain('has no such item')
  const run = await verify(file, '--key', vkey, '--chain', folder)
  const what = 'the signed state is not the state of the first 4 blocks'
  expect([run.code, run.stdout]).toEqual([1, `DIFFERENCE ${what}\n`])
  await node.close()
  const whole = await verify(folder)
  expect([whole.code, whole.stdout]).toEqual([
    1,
    expect.stringContaining('state.db has a signed state that is not the state of the first 4'),
  ])
})

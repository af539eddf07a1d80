import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runHere } from '../../../test/support/command.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { networkCommand } from './network.ts'

const TRADE = 'test/networks/trade'
const NO_GATEWAY = 'daicho: --url: the server at this address is not a gateway of daicho\n'
const commands = {
  list: ['list'],
  deploy: ['deploy', TRADE],
  upgrade: ['upgrade', TRADE, '--default', 'Trader.role=user'],
  identities: ['identity', 'list', 'trade'],
  issue: ['identity', 'issue', 'trade', 'org.example.Trader#ann', 'ann'],
}
const run = (args: readonly string[], url: string, variables = {}) =>
  runHere(networkCommand(), [...args, '--url', url], variables)

it.each(['<html>', '{}', '[5]', '"text"', 'null'])(
  'reports in one line that the reply %s does not come from a gateway',
  async (body) => {
    const { url } = await answering(200, body)
    const empty = body === '[5]' ? [] : [commands.identities]
    for (const command of [commands.list, commands.deploy, commands.issue, ...empty]) {
      const ended = await run(command, url)
      expect([command, ended]).toEqual([command, { code: 1, stdout: '', stderr: NO_GATEWAY }])
    }
  },
)

it('prints the reply of a gateway, or the reason of an error', async () => {
  const summary = { name: 'trade', version: '1.2.3', description: '', sha256: 'ab' }
  const found = await answering(200, JSON.stringify([summary]))
  expect(await run(commands.list, found.url)).toEqual({
    ...{ code: 0, stderr: '', stdout: 'trade 1.2.3  sha256 ab\n' },
  })
  const done = await answering(200, JSON.stringify(summary))
  const key = { GATEWAY_API_KEY: 'k'.repeat(40) }
  const upgraded = await run(commands.upgrade, done.url, key)
  expect([upgraded.code, upgraded.stdout]).toEqual([0, 'upgraded trade 1.2.3  sha256 ab\n'])
  expect(done.requests).toEqual([
    `PUT /networks/trade-network?default=Trader.role%3Duser ${'k'.repeat(40)}`,
  ])
  const inJson = await run([...commands.deploy, '--json'], done.url)
  expect([inJson.code, JSON.parse(inJson.stdout)]).toEqual([0, { status: true, ...summary }])
  const details = [{ path: 'a.cto:1:2', message: 'wrong' }, 5]
  const error = { message: 'it is not right', details }
  const refused = await answering(422, JSON.stringify({ error }))
  expect(await run(commands.deploy, refused.url)).toEqual({
    ...{ code: 1, stdout: '', stderr: 'daicho: it is not right\n  a.cto:1:2: wrong\n' },
  })
  const broken = await answering(502, '<html>')
  expect(await run(commands.list, broken.url)).toEqual({
    ...{ code: 1, stdout: '', stderr: `daicho: ${broken.url} answered with 502\n` },
  })
})

it('rejects a --url that is not a URL', async () => {
  expect(await run(commands.list, 'gateway')).toEqual({
    ...{ code: 2, stdout: '', stderr: expect.stringContaining('"gateway" is not the URL of') },
  })
})

it('packs a network over no file of a node, and not over the archive that it reads', async () => {
  const folder = temporaryFolder()
  const archive = join(temporaryFolder(), 'trade.bna')
  await runHere(networkCommand(), ['pack', TRADE, '--out', archive])
  const out = join(folder, 'node.key')
  for (const name of ['ledger.db', 'node.key']) writeFileSync(join(folder, name), 'kept')
  for (const args of [
    [TRADE, '--out', out],
    [archive, '--out', archive],
  ])
    expect((await runHere(networkCommand(), ['pack', ...args])).code).toBe(2)
  expect(readFileSync(out, 'utf8')).toBe('kept')
})

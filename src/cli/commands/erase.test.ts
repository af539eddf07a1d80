import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runHere } from '../../../test/support/command.ts'
import { type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { eraseCommand } from './erase.ts'

let node: LedgerNode
beforeEach(async () => {
  node = await startLedgerNode()
  onTestFinished(() => node.close())
  await node.send('POST', '/api/people')
  await node.send('POST', '/api/people', [
    { id: 'a', left: 2019 },
    { id: 'b', left: 2025 },
  ])
  await node.send('DELETE', '/api/people/a')
  await node.send('POST', '/api/people/b', { left: 2026 })
})
const erase = (...flags: string[]) =>
  runHere(eraseCommand(), ['people', '--url', node.url, ...flags])

it('counts with --dry-run, erases deleted items, and erases nothing when it is repeated', async () => {
  const printed = async (...flags: string[]) => (await erase(...flags)).stdout
  expect(await printed('--deleted', '--dry-run')).toBe('1 revision of 1 item would be erased\n')
  expect(await printed('--where', '{}', '--dry-run')).toBe(
    '2 revisions of 2 items would be erased\n',
  )
  expect(await printed('--deleted', '--where', '{"left":2025}')).toBe(
    '0 revisions of 0 items erased\n',
  )
  expect(await printed('--deleted', '--reason', 'retention')).toBe('1 revision of 1 item erased\n')
  expect(await printed('--deleted')).toBe('0 revisions of 0 items erased\n')
  expect(JSON.parse(await printed('--ids', 'a', 'b', '--json'))).toEqual({
    ...{ status: true, items: 1, revisions: 1 },
  })
  const { json } = await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}&offset=4`)
  const bodies = json.ledgers.flatMap(({ body }: { body: object[] }) => body)
  expect(bodies).toMatchObject([{ id: 'a', reason: 'retention' }, { id: 'b' }])
})

it('exits with code 2 unless items are selected in one way, and with code 1 if the node refuses', async () => {
  for (const flags of [[], ['--ids', 'a', '--deleted'], ['--where', '[]'], ['--where', '{']]) {
    expect([flags, (await erase(...flags)).code]).toEqual([flags, 2])
  }
  const refused = await erase('--where', '{"left":{"over":1}}')
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/^daicho: the node rejected the request: filter\/where\/left\/over/),
  ])
})

it('tells what is erased if a later request of a long erasure fails', async () => {
  const { url } = await answering(200, '{"status":true,"items":3,"revisions":5,"cursor":"1.0"}')
  const ended = await runHere(eraseCommand(), ['people', '--url', url, '--deleted'])
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  expect(ended.stderr).toMatch(/; 10 revisions of 6 items erased before\n$/)
})

import { beforeAll, expect, it } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { type LedgerNode, startLedgerNode } from '../../../test/support/ledger-node.ts'
import { countCommand } from './count.ts'

let node: LedgerNode
beforeAll(async () => {
  node = await startLedgerNode()
  await node.send('POST', '/api/stock room')
  await node.send('POST', '/api/stock room', [
    { kind: 'apple', qty: 5 },
    { kind: 'pear', qty: 2.5 },
    { kind: 'apple', qty: 9 },
    { kind: '5', qty: null },
  ])
  return () => node.close()
})
const count = (...flags: string[]) =>
  runHere(countCommand(), ['stock room', '--url', node.url, ...flags])

it('prints the number of all items, or of the items that match --where', async () => {
  expect(await count()).toEqual({ code: 0, stdout: '4\n', stderr: '' })
  expect((await count('--where', '{"qty":{"gt":2.5}}')).stdout).toBe('2\n')
})

it('prints a table of groups, or with --json the reply of the node', async () => {
  const flags = ['--group', 'kind', '--sum', 'qty', '--max', 'qty']
  expect((await count(...flags)).stdout).toBe(
    'kind   count  sum qty  max qty\n' +
      '"5"    1      null     null\n' +
      'apple  2      14       9\n' +
      'pear   1      2.5      2.5\n',
  )
  expect((await count('--group', 'kind', '--where', '{"kind":"fig"}')).stdout).toBe('no items\n')
  expect(JSON.parse((await count('--json')).stdout)).toMatchObject({
    status: true,
    groups: [{ group: {}, count: 4 }],
    consistent: true,
  })
})

it('exits with code 1 and the reason if the node rejects the request', async () => {
  const refused = await count('--where', '{"qty":{"over":1}}')
  expect([refused.code, refused.stdout]).toEqual([1, ''])
  expect(refused.stderr).toMatch(
    /^daicho: the node rejected the request: filter\/where\/qty\/over: unknown operator/,
  )
})

it('reports a mistake in the JSON of --where at its position in this flag, and exits with code 2', async () => {
  for (const [where, message] of [
    ['{"qty":}', /^daicho: --where: it is not JSON: .*"{"qty":}"/],
    ['{"qty":1},"limit":3', /^daicho: --where: it is not JSON: .* at position 9\b/],
    ['{"qty":1,"qty":2}', /^daicho: --where: an object has a duplicate member\n$/],
  ] as const) {
    const refused = await count('--where', where)
    expect([where, refused.code, refused.stdout]).toEqual([where, 2, ''])
    expect(refused.stderr).toMatch(message)
  }
})

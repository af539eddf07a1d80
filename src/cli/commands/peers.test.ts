import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { answering } from '../../../test/support/answering.ts'
import { runHere } from '../../../test/support/command.ts'
import { runDaicho } from '../../../test/support/daicho.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { peersCommand } from './peers.ts'

const peer = {
  serverid: 1,
  url: null,
  state: 'current',
  blocks: 3,
  lag: 0,
  error: null,
  evidence: null,
}
const reply = (peers: object[], evidence: object | null = null) =>
  JSON.stringify({ status: true, peers, evidence })

it('lists each peer with its address, height, lag and error', async () => {
  const { url, requests } = await answering(
    200,
    reply([
      peer,
      { ...peer, serverid: 2, url: 'https://b.example', state: 'behind', lag: 4 },
      {
        ...peer,
        serverid: 3,
        state: 'failing',
        error: { code: 'UNREACHABLE', message: 'no answer' },
      },
      { ...peer, serverid: 4, state: 'frozen', evidence: { what: 'two histories' } },
    ]),
  )
  expect(await runHere(peersCommand(), ['--url', url, '--token', 't'])).toEqual({
    code: 1,
    stdout:
      '1  (pushes)  current, 3 blocks\n' +
      '2  https://b.example  behind, 3 blocks, 4 behind\n' +
      '3  (pushes)  failing, 3 blocks: no answer\n' +
      '4  (pushes)  frozen, 3 blocks: two histories\n',
    stderr: '',
  })
  expect(requests).toEqual(['GET /api/config/peers t'])
})

it('sends the value of --token, or the content of the file if the value is the path of a file', async () => {
  const file = join(temporaryFolder(), 'token')
  writeFileSync(file, `${'t'.repeat(400)}\n`)
  const { url, requests } = await answering(200, reply([]))
  for (const tokenFlag of ['short', 't'.repeat(400), file, temporaryFolder()]) {
    await runHere(peersCommand(), ['--url', url, '--token', tokenFlag])
  }
  const [, , , folder = ''] = requests
  expect([requests.slice(0, 3), /^GET \S+ \/.+/.test(folder)]).toEqual([
    ['short', 't'.repeat(400), 't'.repeat(400)].map((token) => `GET /api/config/peers ${token}`),
    true,
  ])
})

it.each([
  ['no peer', reply([]), [0, 'there are no peers\n']],
  [
    'a peer that is behind',
    reply([{ ...peer, state: 'behind', lag: 1 }]),
    [0, '1  (pushes)  behind, 3 blocks, 1 behind\n'],
  ],
  [
    'two heads signed with its own key',
    reply([], { what: 'two heads' }),
    [1, 'there are no peers\nTHIS NODE  frozen: two heads\n'],
  ],
])(
  'reports a node with %s, and exits with 0 only if the node reports no problem',
  async (_, body, expected) => {
    const { url } = await answering(200, body)
    const { code, stdout } = await runHere(peersCommand(), ['list', '--url', url])
    expect([code, stdout]).toEqual(expected)
  },
)

it('prints one line with --json and exits with the same code as without --json', async () => {
  const body = reply([{ ...peer, state: 'failing' }])
  const { url, requests } = await answering(200, body)
  const run = (...args: string[]) => runHere(peersCommand(), [...args, '--url', url, '--json'])
  expect(await run('list')).toEqual({ code: 1, stdout: `${body}\n`, stderr: '' })
  expect(await run('add', 'key')).toEqual({
    code: 0,
    stdout: '{"status":true,"peer":"added"}\n',
    stderr: '',
  })
  expect((await run('remove', '7/8')).stdout).toBe('{"status":true,"peer":"removed"}\n')
  expect(requests.slice(1)).toEqual(['POST /api/config/peers', 'DELETE /api/config/peers/7%2F8'])
})

it('reports an unknown subcommand', async () => {
  // Runs the real program, because inherited settings of commander decide which command reports the error.
  const { code, stdout, stderr } = await runDaicho(['peers', 'lst'])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^error: unknown command 'lst'\n/)
})

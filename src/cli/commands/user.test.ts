import { PassThrough, Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { runHere } from '../../../test/support/command.ts'
import { temporaryFolder } from '../../../test/support/ledger-node.ts'
import { addUser, usersInFolder } from '../../sample-api/index.ts'
import { hashPassword } from '../../tokens/index.ts'
import { readNewPassword } from '../actions/user.ts'
import { userCommand } from './user.ts'

it('lists names and administrators, never passwords', async () => {
  const folder = temporaryFolder()
  const list = async (...flags: string[]) =>
    (await runHere(userCommand(), ['list', ...flags], { SYSTEM_FOLDER: folder })).stdout
  expect([await list(), await list('--json')]).toEqual(['', '[]\n'])
  const users = await usersInFolder(folder)
  const passwordHash = await hashPassword('brass: key')
  for (const [name, admin] of [
    ['ann', true],
    ['ben', false],
  ] as const) {
    await users.change((all) => addUser(all, { name, admin, passwordHash }))
  }
  expect(await list()).toBe('ann (admin)\nben\n')
  expect(await list('--json')).toBe('[{"name":"ann","admin":true},{"name":"ben","admin":false}]\n')
})

/** Simulates a terminal. Each question gets the next element of `typed`; `shown` collects the output. */
function terminal(typed: readonly string[]) {
  const input = Object.assign(new PassThrough(), { isTTY: true })
  const shown: string[] = []
  const left = [...typed]
  const output = {
    write: (text: string | Uint8Array) => {
      shown.push(String(text))
      if (String(text).endsWith(': ')) setImmediate(() => input.write(left.shift() ?? ''))
      return true
    },
  }
  return { input, output, shown }
}

const outcomeOf = (reading: Promise<string>): Promise<string> =>
  reading.catch((error: Error) => error.message)

it('asks for the password twice on a terminal, without echo', async () => {
  const { input, output, shown } = terminal(['brass: key\r', 'brass: key\r'])
  expect(await readNewPassword(input, output)).toBe('brass: key')
  expect(shown).toEqual(['Password: ', '\n', 'Again: ', '\n'])
})

it.each([
  ['differ', ['one\r', 'other\r'], 'the two passwords differ; nothing was changed'],
  ['end with Ctrl-C', ['on\x03'], 'no password was given; nothing was changed'],
  ['end with Ctrl-D', ['\x04'], 'no password was given; nothing was changed'],
  [
    'end with Ctrl-C at the second question',
    ['one\r', '\x03'],
    'no password was given; nothing was changed',
  ],
])('leaves the password unchanged when the two entries %s', async (_, typed, message) => {
  const { input, output } = terminal(typed)
  expect(await outcomeOf(readNewPassword(input, output))).toBe(message)
})

it.each([
  ['the first line', ['brass', ': key\nmore\n'], 'brass: key'],
  ['a line that ends with CRLF', ['brass: key\r\n'], 'brass: key'],
  ['a line without a line break', ['brass: key'], 'brass: key'],
  ['8 KiB', ['x'.repeat(8_191), '\n'], 'x'.repeat(8_191)],
  [
    'more than 8 KiB',
    ['x'.repeat(8_192), '\n'],
    'the password on standard input has more than 8192 bytes',
  ],
  ['nothing', [], 'no password was given: write it as the first line of standard input'],
  [
    'an empty line',
    ['\nbrass: key\n'],
    'no password was given: write it as the first line of standard input',
  ],
])(
  'for a pipe that contains %s, reads the password or reports the reason',
  async (_, parts, expected) => {
    const output = { write: () => expect.fail('nothing is asked') }
    const reading = readNewPassword(Readable.from(parts, { objectMode: false }), output)
    expect(await outcomeOf(reading)).toBe(expected)
  },
)

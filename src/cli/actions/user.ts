import { createInterface, type Interface } from 'node:readline'
import { type Readable, Writable } from 'node:stream'
import {
  addUser,
  changePassword,
  removeUser,
  type Users,
  usersInFolder,
} from '../../sample-api/index.ts'
import { hashPassword, type SharedValue } from '../../tokens/index.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { nodeFolder } from '../node/node-folder.ts'

function openUsers({ mayBeNew } = { mayBeNew: false }): SharedValue<Users> {
  return usersInFolder(nodeFolder(readSettings(process.env), { mayBeNew }))
}

async function newPasswordHash(): Promise<string> {
  return hashPassword(await readNewPassword(process.stdin, process.stderr))
}

type Input = Readable & { readonly isTTY?: boolean }
type Output = Pick<NodeJS.WriteStream, 'write'>

/** Maximum bytes that are read from standard input. */
const INPUT_BYTES_MAX = 8 * 1024

/**
 * Reads a new password: twice without echo on a terminal, otherwise the first line of `input`. The password is never an
 * argument, because other processes can read arguments and shells keep a history. Errors: Exit (usage) if the two
 * passwords differ, or if there is no password.
 */
export async function readNewPassword(input: Input, output: Output): Promise<string> {
  if (input.isTTY !== true) return firstLine(input)
  // The line editor echoes into a sink. The editor stays open for both questions, so that text typed between the
  // questions is not echoed either.
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input, output: sink, terminal: true, historySize: 0 })
  try {
    const password = await askPassword(lines, output, 'Password: ')
    if ((await askPassword(lines, output, 'Again: ')) === password) return password
    throw new Exit(EXIT.usage, 'the two passwords differ; nothing was changed')
  } finally {
    lines.close()
  }
}

function askPassword(lines: Interface, output: Output, question: string): Promise<string> {
  output.write(question)
  return new Promise<string>((resolve, reject) => {
    lines.once('line', resolve)
    // Called on Ctrl-C and Ctrl-D. After a line was read, a call has no effect.
    const end = () => reject(new Exit(EXIT.usage, 'no password was given; nothing was changed'))
    lines.once('SIGINT', end)
    lines.once('close', end)
  }).finally(() => output.write('\n'))
}

async function firstLine(input: Input): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of input) {
    const read = Buffer.from(part)
    parts.push(read)
    bytes += read.length
    if (bytes > INPUT_BYTES_MAX)
      throw new Exit(
        EXIT.usage,
        `the password on standard input has more than ${INPUT_BYTES_MAX} bytes`,
      )
  }
  const [line = ''] = Buffer.concat(parts).toString('utf8').split(/\r?\n/, 1)
  if (line === '')
    throw new Exit(
      EXIT.usage,
      'no password was given: write it as the first line of standard input',
    )
  return line
}

export async function runUserAdd(name: string, flags: { admin?: boolean }): Promise<void> {
  const users = openUsers({ mayBeNew: true })
  const admin = flags.admin === true
  // A trial call, which checks the name before the user types a password.
  addUser(users.current(), { name, admin, passwordHash: '' })
  const passwordHash = await newPasswordHash()
  await users.change((list) => addUser(list, { name, admin, passwordHash }))
  process.stdout.write(`added ${name}\n`)
}

export async function runUserPasswd(name: string): Promise<void> {
  const users = openUsers()
  changePassword(users.current(), name, '')
  const passwordHash = await newPasswordHash()
  await users.change((list) => changePassword(list, name, passwordHash))
  process.stdout.write(`changed the password of ${name}\n`)
}

export async function runUserRemove(name: string): Promise<void> {
  await openUsers().change((list) => removeUser(list, name))
  process.stdout.write(`removed ${name}\n`)
}

export function runUserList(flags: { json?: boolean }): void {
  const shown = openUsers()
    .current()
    .map(({ name, admin }) => ({ name, admin }))
  const lines = shown.map(({ name, admin }) => (admin ? `${name} (admin)\n` : `${name}\n`))
  process.stdout.write(flags.json === true ? `${JSON.stringify(shown)}\n` : lines.join(''))
}

import { createInterface, type Interface } from 'node:readline'
import { type Readable, Writable } from 'node:stream'
import { EXIT, Exit } from '../exit.ts'

/** Standard input: a terminal, a pipe or a file. */
type Input = Readable & { readonly isTTY?: boolean }
/** Where questions are put. */
type Output = Pick<NodeJS.WriteStream, 'write'>

/** Bytes of standard input that are read for a password at most. */
const INPUT_BYTES_MAX = 8 * 1024

/**
 * A new password: typed twice without echo on a terminal, else the first line of `input`.
 *
 * It never comes from the arguments: those are seen by every process of the machine and kept in
 * the history of the shell.
 * Errors: Exit (usage) when the two differ, or none comes.
 */
export async function readNewPassword(input: Input, output: Output): Promise<string> {
  if (input.isTTY !== true) return firstLine(input)
  // The line editor echoes into nowhere. It is there before the question is, and stays for both:
  // whatever is typed from then on is not shown.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input, output: nowhere, terminal: true, historySize: 0 })
  try {
    const password = await ask(lines, output, 'Password: ')
    if ((await ask(lines, output, 'Again: ')) === password) return password
    throw new Exit(EXIT.usage, 'the two passwords differ; nothing was changed')
  } finally {
    lines.close()
  }
}

function ask(lines: Interface, output: Output, question: string): Promise<string> {
  output.write(question)
  return new Promise<string>((resolve, reject) => {
    lines.once('line', resolve)
    // Ctrl-C and Ctrl-D; after a line this comes too late to matter.
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
    if (bytes > INPUT_BYTES_MAX) throw new Exit(EXIT.usage, 'standard input is no password')
  }
  const [line = ''] = Buffer.concat(parts).toString('utf8').split(/\r?\n/, 1)
  if (line === '') throw new Exit(EXIT.usage, 'give the password on standard input')
  return line
}

import { type ChildProcessWithoutNullStreams, execFile, spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

/** Whether Python and its package `cryptography` are installed. */
export const hasPython = spawnSync('python3', ['-c', 'import cryptography']).status === 0
/** Text for the names of tests that need Python. */
export const pythonNote: string = hasPython
  ? ''
  : ' (skipped: no python3 with the package cryptography)'

const run = promisify(execFile)

/** Runs Python with the client in `clients/python`. If Python fails, rejects with its output. */
export async function runPython(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  return run('python3', args, pythonOptions(env))
}

function pythonOptions(env: Readonly<Record<string, string>>) {
  const cwd = new URL('../../clients/python', import.meta.url)
  const fixed = { PYTHONPATH: 'src', PYTHONDONTWRITEBYTECODE: '1', NO_PROXY: '*' }
  return { cwd, env: { ...process.env, ...fixed, ...env } }
}

/** A Python program that answers each line of its input with a line. */
export class LinesOfPython {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  #failure = ''

  /** `program` is the text of the program. */
  constructor(program: string, args: readonly string[]) {
    this.#child = spawn('python3', ['-c', program, ...args], pythonOptions({}))
    this.#child.stderr.on('data', (bytes) => {
      this.#failure += bytes
    })
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  /** Sends lines, and returns the answers. Rejects with the output of Python if it fails. */
  async answers(lines: readonly string[]): Promise<string[]> {
    this.#child.stdin.write(lines.map((line) => `${line}\n`).join(''))
    const answers: string[] = []
    while (answers.length < lines.length) {
      const { value, done } = await this.#lines.next()
      if (done === true) throw new Error(`Python has ended: ${this.#failure}`)
      answers.push(value)
    }
    return answers
  }

  close(): void {
    this.#child.kill()
  }
}

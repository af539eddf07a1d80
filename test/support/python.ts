import { execFile, spawnSync } from 'node:child_process'
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
  const cwd = new URL('../../clients/python', import.meta.url)
  const fixed = { PYTHONPATH: 'src', PYTHONDONTWRITEBYTECODE: '1', NO_PROXY: '*' }
  return run('python3', args, { cwd, env: { ...process.env, ...fixed, ...env } })
}

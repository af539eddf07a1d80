import type { Command } from 'commander'
import { vi } from 'vitest'
import { EXIT, Exit } from '../../src/cli/exit.ts'
import type { Ended } from './program.ts'

/**
 * Runs `command` with `args` in this process, which takes a hundredth of a program's start: what it prints,
 * and how the program would end. Nothing of daicho is in its environment but `variables`.
 */
export async function runHere(
  command: Command,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const [stdout, stderr] = [printed(process.stdout), printed(process.stderr)]
  const before = { env: process.env, exitCode: process.exitCode }
  process.env = { HOME: '/nowhere', ...variables }
  process.exitCode = undefined
  let code: number
  try {
    await command.exitOverride().parseAsync(args, { from: 'user' })
    code = Number(process.exitCode ?? EXIT.right)
  } catch (error) {
    if (!(error instanceof Exit)) throw error
    stderr.texts.push(`daicho: ${error.message}\n`)
    code = error.code
  } finally {
    process.env = before.env
    process.exitCode = before.exitCode
    stdout.end()
    stderr.end()
  }
  return { code, stdout: stdout.texts.join(''), stderr: stderr.texts.join('') }
}

/** Keeps what is written to `stream` from now on. */
function printed(stream: NodeJS.WriteStream) {
  const texts: string[] = []
  const write = vi.spyOn(stream, 'write').mockImplementation((text) => {
    texts.push(String(text))
    return true
  })
  return { texts, end: () => write.mockRestore() }
}

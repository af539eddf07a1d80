import { existsSync, readFileSync, statSync } from 'node:fs'
import type { Command } from 'commander'
import { EXIT, Exit } from '../exit.ts'

/** Address of a node on this computer with the default port. */
export const LOCAL_NODE = 'http://127.0.0.1:4126'

/** The flags that `addNodeOptions` adds. */
export interface NodeFlags {
  readonly url?: string
  readonly token?: string
  readonly json?: boolean
}

/** Adds the flags of a command that calls a running node. `url`: the default of --url. */
export function addNodeOptions(
  command: Command,
  url?: string,
  aboutToken = 'token if the node requires one, or a file that contains it',
): Command {
  const example = url === undefined ? `, such as ${LOCAL_NODE}` : ''
  return command
    .option('--url <url>', `the running node${example}`, url)
    .option('--token <token>', aboutToken, textOrFile)
    .option(...JSON_OPTION)
}

/** The flag that `addAuthorOption` adds. */
export interface AuthorFlags {
  readonly by?: string
}

/** Adds the flag of a command that can change the data of a stopped node. */
export function addAuthorOption(command: Command): Command {
  const about =
    'author of the changes to a stopped node (default with TOKENS=required: the user of the operating system)'
  return command.option('--by <name>', about)
}

export const JSON_OPTION = ['--json', 'print the result as one line of JSON'] as const

/**
 * Returns `text`, or the trimmed content of the file or pipe if `text` is its path. Secrets belong in files, because other
 * processes can read the flags.
 */
export function textOrFile(text: string): string {
  const isFile = existsSync(text) && !statSync(text).isDirectory()
  return isFile ? smallFile(text).trim() : text
}

/** Maximum bytes of a file with a key, a token or a policy. */
const SMALL_FILE_BYTES_MAX = 1_048_576

/** Returns the text of a file. Errors: Exit (usage) if the file is too large; system errors. */
export function smallFile(path: string): string {
  const { size } = statSync(path)
  if (size <= SMALL_FILE_BYTES_MAX) return readFileSync(path, 'utf8')
  const message = `${path} is ${size} bytes long; the maximum is ${SMALL_FILE_BYTES_MAX}`
  throw new Exit(EXIT.usage, message)
}

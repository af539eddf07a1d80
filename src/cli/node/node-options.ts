import type { Command } from 'commander'
import { textOrFile } from './node-client.ts'

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

export const JSON_OPTION = ['--json', 'print the result as one line of JSON'] as const

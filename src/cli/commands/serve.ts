import { Command, InvalidArgumentError, Option } from 'commander'
import { COMPONENT_NAMES, parseComponentNames } from '../composition/components.ts'
import { portOptions } from '../composition/ports.ts'
import { addFolderOption } from '../node/node-folder.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/serve.ts'))

export function serveCommand(): Command {
  const command = new Command('serve')
    .description('start the components, each on its own port')
    .addOption(
      new Option(
        '--only <names>',
        `start only these components, separated by commas: ${COMPONENT_NAMES.join(',')}`,
      ).argParser(parseComponentNames),
    )
    .option('--host <address>', 'address to listen on (HOST, else 127.0.0.1)')
    .option('--json', 'print the addresses as one line of JSON')
    .addOption(
      new Option(
        '-n, --namespaces <when>',
        'when the explorer shows namespaces (GATEWAY_NAMESPACES)',
      ).choices(['always', 'never', 'required']),
    )
    .option('-y, --apikey <key>', 'key of the gateway; prefer GATEWAY_API_KEY')
    .option('-a, --authentication', 'issue identities to participants (GATEWAY_AUTHENTICATION=1)')
  for (const option of portOptions(parsePort)) command.addOption(option)
  addFolderOption(command, 'folder for all data; without it, data is lost when the process ends')
  return command.action(run('runServe'))
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(port <= 65_535))
    throw new InvalidArgumentError('a port must be an integer from 0 to 65535.')
  return port
}

import { Command, InvalidArgumentError, Option } from 'commander'
import { DURATION_EXPECTED, parseDuration } from '../composition/settings.ts'
import { addFolderOption } from '../node/node-folder.ts'
import { addNodeOptions, LOCAL_NODE } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/token.ts'))

export function tokenCommand(): Command {
  const command = new Command('token').description(
    'manage the tokens of the node in SYSTEM_FOLDER; changes apply at once to a running node',
  )
  command
    .command('mint')
    .description('create a token for the ledger API')
    .requiredOption(
      '--scope <scopes...>',
      'scopes: db:<name or *>:read, :write or :admin, ledger:read, node:metrics, ' +
        'node:sync, node:admin',
    )
    .addOption(
      new Option('--ttl <time>', 'lifetime, such as 15m or 90d; at most 366d')
        .argParser(parseTtl)
        .default(24 * 3_600_000, '24h'),
    )
    .option('--subject <name>', 'subject of the token', 'operator')
    .option('--json', 'print one line of JSON')
    .action(run('runTokenMint'))
  const listCommand = command
    .command('list')
    .description('list the tokens that the running node has issued or accepted since its start')
    .action(run('runTokenList'))
  const aboutToken =
    'token with the scope node:admin, or a file that contains it; if omitted, the command uses a token ' +
    'that it signs with the key in the folder, valid for one minute, for a node on this computer'
  addNodeOptions(listCommand, LOCAL_NODE, aboutToken)
  command
    .command('revoke')
    .description('revoke a token, or all tokens that a subject has until now')
    .argument('[jti]', 'id of the token, as listed; with --issuer, its claim jti')
    .option('--subject <name>', 'revoke all tokens of this subject that were issued until now')
    .option('--issuer <address>', 'the OpenID Connect issuer of the token or of the subject')
    .action(run('runTokenRevoke'))
  command
    .command('keys')
    .description('manage the keys that sign tokens')
    .command('rotate')
    .description('sign with a new key; existing tokens stay valid until they expire')
    .option('--drop-old', 'drop the old keys, which revokes every existing token')
    .action(run('runKeyRotation'))
  return addFolderOption(command)
}

function parseTtl(text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw new InvalidArgumentError(`write ${DURATION_EXPECTED}.`)
  return ms
}

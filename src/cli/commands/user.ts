import { Command } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/user.ts'))

export function userCommand(): Command {
  const command = new Command('user').description(
    'manage the users of the sample API in SYSTEM_FOLDER; changes apply at once to a running node',
  )
  const about = 'password: typed without echo, or the first line of standard input'
  command
    .command('add')
    .description(`add a user; ${about}`)
    .argument('<name>')
    .option('--admin', 'mark the user as an administrator')
    .action(run('runUserAdd'))
  command
    .command('passwd')
    .description(`change a password, which ends the user's sessions; ${about}`)
    .argument('<name>')
    .action(run('runUserPasswd'))
  command
    .command('remove')
    .description("remove a user, which ends the user's sessions")
    .argument('<name>')
    .action(run('runUserRemove'))
  command
    .command('list')
    .description('list the users; passwords are kept as hashes and never shown')
    .option('--json', 'print the result as one line of JSON')
    .action(run('runUserList'))
  return addFolderOption(command)
}

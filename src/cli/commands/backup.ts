import { Command, InvalidArgumentError } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/backup.ts'))

export function backupCommand(): Command {
  return new Command('backup')
    .description('copy a data folder to a new folder in <to>; the node may be running')
    .argument('<folder>', 'a data folder')
    .argument('<to>', 'folder for the backups; the name of a backup is its time')
    .option('--without-keys', 'leave out node.key and token-keys.json')
    .option('--no-verify', 'do not verify the copy')
    .option(
      '--keep <number>',
      'number of backups to keep; older backups of this node are removed',
      parseKeep,
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: the backup was created. 1: no backup, because the store is damaged or older than signed-head, or the disk is full.\n' +
        '2: there is nothing to back up. 78: another backup is running in <to>.',
    )
    .action(run('runBackup'))
}

function parseKeep(text: string): number {
  const keep = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (keep < 1)
    throw new InvalidArgumentError('the number of backups must be an integer of 1 or more.')
  return keep
}

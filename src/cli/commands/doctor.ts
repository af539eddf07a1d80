import { Command } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { JSON_OPTION } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/doctor.ts'))

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description('check version, folder, key, disk and clock of a node, and its last verification')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nChanges nothing; the node may be running. Run it as the user of the node. `daicho verify` checks the data.\n' +
        '\nExit code 0: no problems; there may be warnings. 1: problems were found. 78: an invalid variable.',
    )
    .action(run('runDoctor'))
  return addFolderOption(command)
}

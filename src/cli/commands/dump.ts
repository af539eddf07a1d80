import { Command, Option } from 'commander'
import { DUMP_FORMATS } from '../../exchange/choices.ts'
import { addFolderOption } from '../node/node-folder.ts'
import { addNodeOptions } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/dump.ts'))

export function dumpCommand(): Command {
  const command = new Command('dump')
    .description(
      'write the items of a database as NDJSON, JSON or CSV, from the running node at --url or from SYSTEM_FOLDER',
    )
    .argument('<db>', 'name of the database')
    .option('--out <file>', 'output file, compressed if it ends in .gz; - for stdout', '-')
    .addOption(
      new Option('--format <name>', 'default: from the file name, otherwise ndjson').choices(
        DUMP_FORMATS,
      ),
    )
    .option('--gzip', 'compress the output')
    .addHelpText(
      'after',
      '\nThe dump shows the state after one block; its height is printed. A node may be running in SYSTEM_FOLDER.\n' +
        'With --url, the dump fails if the database changes during the dump. Attachments and histories are not part of a\n' +
        'dump; see daicho backup and daicho export.\n' +
        '\nExit code 0: the dump is complete. 1: it is not; no file was written. 2: wrong arguments. 78: the folder\n' +
        'is not suitable.',
    )
    .action(run('runDump'))
  return addFolderOption(addNodeOptions(command))
}

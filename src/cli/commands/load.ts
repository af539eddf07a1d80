import { Command, Option } from 'commander'
import { CONFLICT_POLICIES, SOURCE_FORMATS } from '../../exchange/choices.ts'
import { addFolderOption } from '../node/node-folder.ts'
import { addAuthorOption, addNodeOptions } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/load.ts'))

export function loadCommand(): Command {
  const command = new Command('load')
    .description(
      'load items from files into a database of the running node at --url or the stopped node in SYSTEM_FOLDER',
    )
    .argument('<db>', 'database, created if missing; {table} stands for the table of a QLDB export')
    .argument('<file...>', 'files in the order of loading, compressed by gzip or not; - for stdin')
    .addOption(
      new Option(
        '--format <name>',
        'default: detected from the file name, or from the first character',
      ).choices(SOURCE_FORMATS),
    )
    .option(
      '--id <member>',
      'member whose value becomes the id (default: id; _id of CouchDB and MongoDB)',
    )
    .option('--schema <file>', 'types of CSV columns, as JSON: {"price":"number"}')
    .option('--no-attachments', 'leave out the attachments of CouchDB documents')
    .addOption(
      new Option('--on-conflict <what>', 'action if an item with the same id exists')
        .choices(CONFLICT_POLICIES)
        .default('fail'),
    )
    .option('--refused <file>', 'write all refused records to this file, one line of JSON each')
    .option('--resume', 'continue an interrupted load where it ended')
    .option(
      '--state <file>',
      'file for the progress of the load (default: <file>.load; none for stdin)',
    )
    .addHelpText(
      'after',
      '\nEach batch of up to 1,000 items is recorded in one block, completely or not at all. Formats and conversions\n' +
        'are described in docs/how-to/migrate.md.\n' +
        '\nExit code 0: everything was loaded. 1: records were refused, or the load ended early; the output shows\n' +
        'what was loaded. 2: wrong arguments. 78: the folder is not suitable, or its node is running.',
    )
    .action(run('runLoad'))
  return addFolderOption(addAuthorOption(addNodeOptions(command)))
}

import { Command } from 'commander'
import { addFolderOption } from '../node/node-folder.ts'
import { addNodeOptions } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/indexes.ts'))

export function indexCommand(): Command {
  const command = new Command('index').description(
    'manage the indexes of the running node at --url or the stopped node in SYSTEM_FOLDER',
  )
  const sub = (name: string, about: string) =>
    addNodeOptions(command.command(name).description(about))
  sub('list', 'list the indexes and their build progress').action(run('runIndexList'))
  sub('add', 'add an index and wait until it is built')
    .argument('<database>')
    .argument('<path>', 'path of a member of the items, such as address.city')
    .option('--no-wait', 'return at once; the node builds the index in the background')
    .action(run('runIndexAdd'))
  sub('remove', 'remove an index')
    .argument('<database>')
    .argument('<path>')
    .action(run('runIndexRemove'))
  return addFolderOption(command, 'data folder of the stopped node')
}

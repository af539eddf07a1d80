import { Command } from 'commander'
import { addNodeOptions, LOCAL_NODE } from '../node/node-options.ts'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/count.ts'))

const FUNCTIONS = {
  sum: 'sum',
  avg: 'average',
  min: 'least number or string',
  max: 'greatest number or string',
} as const

export function countCommand(): Command {
  const command = new Command('count')
    .description('count the items of a running node, in groups, with sums and averages')
    .argument('<database>')
    .option('--where <json>', 'count only these items, such as {"price":{"gt":5}}')
    .option(
      '--group <paths>',
      'one or two members, separated by a comma; items with equal values form a group',
    )
  for (const [name, about] of Object.entries(FUNCTIONS)) {
    command.option(`--${name} <paths>`, `show the ${about} of these members, separated by commas`)
  }
  return addNodeOptions(command, LOCAL_NODE).action(run('runCount'))
}

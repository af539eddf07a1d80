import { Command } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/config.ts'))

export function configCommand(): Command {
  return new Command('config')
    .description('print the effective configuration; secrets are masked')
    .option('--json', 'print the result as one line of JSON')
    .action(run('runConfig'))
}

import { Command, InvalidArgumentError } from 'commander'
import { actionsFrom } from './action.ts'

const run = actionsFrom(() => import('../actions/rates.ts'))

export function ratesCommand(): Command {
  return new Command('rates')
    .description('print the current rates of the twenty pairs')
    .option('--url <address>', 'read from a running rate feed instead of the sources', parseAddress)
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: rates were printed, stale ones with a warning. 1: no rates are available.',
    )
    .action(run('runRates'))
}

function parseAddress(text: string): URL {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return url
  throw new InvalidArgumentError('an address must start with http:// or https://.')
}

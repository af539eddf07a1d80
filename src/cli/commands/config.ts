import { Command } from 'commander'
import { readSettings, shownSettings } from '../composition/settings.ts'
import { print } from '../output/output.ts'

export function configCommand(): Command {
  return new Command('config')
    .description('print the effective configuration; secrets are masked')
    .option('--json', 'print the result as one line of JSON')
    .action((flags: { json?: boolean }) => {
      const settings = shownSettings(readSettings(process.env))
      const values = Object.fromEntries(settings.map(({ name, value }) => [name, value]))
      const width = Math.max(...settings.map(({ name }) => name.length))
      const lines = settings.map(({ name, value, isDefault, about }) => {
        const text = Array.isArray(value) ? value.join(',') : String(value ?? '')
        const origin = isDefault ? 'default' : 'set'
        return `${name.padEnd(width)}  ${text.padEnd(16)}  ${origin.padEnd(7)}  ${about}`
      })
      print(flags.json, values, lines.join('\n'))
    })
}

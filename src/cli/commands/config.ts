import { Command } from 'commander'
import { readSettings, shownSettings } from '../settings.ts'

/** `daicho config`. */
export function configCommand(): Command {
  return new Command('config').option('--json', 'print it as one line of JSON').action(config)
}

function config(flags: { json?: boolean }): void {
  const shown = shownSettings(readSettings(process.env))
  if (flags.json === true) {
    const values = Object.fromEntries(shown.map(({ name, value }) => [name, value]))
    process.stdout.write(`${JSON.stringify(values)}\n`)
    return
  }
  const width = Math.max(...shown.map(({ name }) => name.length))
  for (const { name, value, isDefault, about } of shown) {
    const text = Array.isArray(value) ? value.join(',') : String(value ?? '')
    const origin = isDefault ? 'default' : 'set'
    process.stdout.write(
      `${name.padEnd(width)}  ${text.padEnd(16)}  ${origin.padEnd(7)}  ${about}\n`,
    )
  }
}

import { readSettings, shownSettings } from '../composition/settings.ts'
import { print } from '../output/output.ts'

export function runConfig(flags: { json?: boolean }): void {
  const settings = shownSettings(readSettings(process.env))
  const values = Object.fromEntries(settings.map(({ name, value }) => [name, value]))
  const width = Math.max(...settings.map(({ name }) => name.length))
  const lines = settings.map(({ name, value, isDefault, about }) => {
    const text = Array.isArray(value) ? value.join(',') : String(value ?? '')
    const origin = isDefault ? 'default' : 'set'
    return `${name.padEnd(width)}  ${text.padEnd(16)}  ${origin.padEnd(7)}  ${about}`
  })
  print(flags.json, values, lines.join('\n'))
}

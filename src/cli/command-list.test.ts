import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { COMMANDS } from './command-list.ts'

it.each(Object.entries(COMMANDS))(
  'the command %s has the right name and a description',
  async (name, load) => {
    const command = await load()
    expect(command.name()).toBe(name)
    expect(command.description()).toMatch(/^[a-z].*[a-z]$/i)
  },
)

it('loads only the code of the requested command', () => {
  const imported = ['main.ts', 'command-list.ts'].flatMap((name) => {
    const text = readFileSync(new URL(name, import.meta.url), 'utf8')
    return [...text.matchAll(/^import (?!type).* from '(.*)'$/gm)].map(([, from]) => from)
  })
  expect(imported).toEqual([
    'node:module',
    'node:url',
    'node:v8',
    'commander',
    './command-list.ts',
    './exit.ts',
    './output/output.ts',
    './signals.ts',
    './version.ts',
  ])
})

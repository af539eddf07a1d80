import { readFileSync } from 'node:fs'
import { Help } from 'commander'
import { expect, it } from 'vitest'
import { COMMANDS } from './command-list.ts'

it.each(COMMANDS)('the list of commands shows $name with what it takes', async (listed) => {
  const command = await listed.load()
  expect(command.name()).toBe(listed.name)
  expect(new Help().subcommandTerm(command)).toBe(`${listed.name} ${listed.usage}`.trimEnd())
  expect(listed.about).toMatch(/^[a-z].*[a-z]$/i)
})

it('what is not run is not loaded: the program itself imports no command', () => {
  const imported = ['main.ts', 'command-list.ts'].flatMap((name) => {
    const text = readFileSync(new URL(name, import.meta.url), 'utf8')
    return [...text.matchAll(/^import (?!type).* from '(.*)'$/gm)].map(([, from]) => from)
  })
  expect(imported).toEqual([
    'node:module',
    'node:url',
    'commander',
    './command-list.ts',
    './exit.ts',
    './version.ts',
  ])
})

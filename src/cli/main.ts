#!/usr/bin/env -S node --max-semi-space-size=8
// As a namespace: Node 20 lacks a name of it and would fail before the version check.
import * as nodeModule from 'node:module'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError } from 'commander'
import { COMMANDS } from './command-list.ts'
import { EXIT, exitOf } from './exit.ts'
import { VERSION } from './version.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
// Node 23 lacks `setReturnArrays` of `node:sqlite`, which 24 and 22.16 have.
if (major < 24 && (major !== 22 || minor < 18)) {
  const needed = 'daicho needs Node 24 or newer, or 22.18 or newer of 22'
  process.stderr.write(`${needed}; this is ${process.versions.node}\n`)
  process.exit(EXIT.configuration)
}

// The compile cache lies beside the program, if that is writable. Threads find it by the environment.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
  new URL('../../node_modules/.cache/compiled', import.meta.url),
)
nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE)

const program = new Command('daicho')
  .description('A ledger database that anyone can verify, and the services beside it')
  .version(VERSION)
  .showHelpAfterError('(add --help for the possibilities)')
const named = process.argv.slice(2).find((word) => COMMANDS.some(({ name }) => name === word))
for (const { name, about, load } of COMMANDS) {
  const command = name === named ? await load() : new Command(name)
  program.addCommand(command.description(about))
}
inherit(program)
program.configureHelp({ subcommandTerm })

/** Applies the program's settings to commands of commands. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent).exitOverride()
    inherit(command)
  }
}

/** The term of a command in the list, whether it is loaded or not. */
function subcommandTerm(command: Command): string {
  const name = command.name()
  const listed = COMMANDS.find((one) => one.name === name)
  return `${name} ${listed === undefined ? '[command]' : listed.usage}`.trimEnd()
}

try {
  await program.exitOverride().parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    process.exit(error.exitCode === 0 ? EXIT.right : EXIT.usage)
  }
  const exit = exitOf(error)
  if (exit === null) throw error
  process.stderr.write(`daicho: ${exit.message}\n`)
  process.exit(exit.code)
}

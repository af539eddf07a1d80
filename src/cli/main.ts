#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { EXIT, Exit } from './exit.ts'
import { VERSION } from './version.ts'

if (Number(process.versions.node.split('.')[0]) < 22) {
  process.stderr.write(`daicho needs Node 22.18 or newer; this is ${process.versions.node}\n`)
  process.exit(EXIT.configuration)
}

// After the check: older versions of Node cannot load what the commands need.
const { configCommand } = await import('./config.ts')
const { ratesCommand } = await import('./rates.ts')
const { serveCommand } = await import('./serve.ts')
const { tokenCommand } = await import('./token.ts')
const { userCommand } = await import('./user.ts')
const { verifyCommand } = await import('./verify.ts')

const program = new Command('daicho')
  .description('A ledger database that anyone can verify, and the services beside it')
  .version(VERSION)
  .addCommand(serveCommand())
  .addCommand(verifyCommand())
  .addCommand(userCommand())
  .addCommand(tokenCommand())
  .addCommand(ratesCommand())
  .addCommand(configCommand())
  .showHelpAfterError('(add --help for the possibilities)')
inherit(program)

/** What holds for the program holds for commands of commands. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent).exitOverride()
    inherit(command)
  }
}

try {
  await program.exitOverride().parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    process.exit(error.exitCode === 0 ? EXIT.right : EXIT.usage)
  }
  if (!(error instanceof Exit)) throw error
  process.stderr.write(`daicho: ${error.message}\n`)
  process.exit(error.code)
}

#!/usr/bin/env -S node --max-semi-space-size=8
import { Command, CommanderError } from 'commander'
import { EXIT, Exit } from './exit.ts'
import { VERSION } from './version.ts'

if (Number(process.versions.node.split('.')[0]) < 22) {
  process.stderr.write(`daicho needs Node 22.18 or newer; this is ${process.versions.node}\n`)
  process.exit(EXIT.configuration)
}

/** Loaded when they are needed: one command does not wait for what the others are made of. */
const COMMANDS = new Map<string, () => Promise<Command>>([
  ['serve', async () => (await import('./serve.ts')).serveCommand()],
  ['verify', async () => (await import('./verify.ts')).verifyCommand()],
  ['backup', async () => (await import('./backup.ts')).backupCommand()],
  ['export', async () => (await import('./export.ts')).exportCommand()],
  ['import', async () => (await import('./import.ts')).importCommand()],
  ['peers', async () => (await import('./peers.ts')).peersCommand()],
  ['restore', async () => (await import('./restore.ts')).restoreCommand()],
  ['user', async () => (await import('./user.ts')).userCommand()],
  ['token', async () => (await import('./token.ts')).tokenCommand()],
  ['index', async () => (await import('./indexes.ts')).indexCommand()],
  ['image', async () => (await import('./image.ts')).imageCommand()],
  ['rates', async () => (await import('./rates.ts')).ratesCommand()],
  ['network', async () => (await import('./network.ts')).networkCommand()],
  ['config', async () => (await import('./config.ts')).configCommand()],
])

const program = new Command('daicho')
  .description('A ledger database that anyone can verify, and the services beside it')
  .version(VERSION)
  .showHelpAfterError('(add --help for the possibilities)')
const named = COMMANDS.get(process.argv[2] ?? '')
for (const load of named === undefined ? COMMANDS.values() : [named]) {
  program.addCommand(await load())
}
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

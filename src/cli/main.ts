#!/usr/bin/env -S node --max-semi-space-size=8
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError } from 'commander'
import { EXIT, Exit, exitOfSystem } from './exit.ts'
import { VERSION } from './version.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
// 23 has no `setReturnArrays` in `node:sqlite`, which went into 24 and 22.16.
if (major < 24 && (major !== 22 || minor < 18)) {
  const needed = 'daicho needs Node 24 or newer, or 22.18 or newer of 22'
  process.stderr.write(`${needed}; this is ${process.versions.node}\n`)
  process.exit(EXIT.configuration)
}

// What was compiled once is kept beside the program, where that can be written; the environment is how
// threads learn of it.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
  new URL('../../node_modules/.cache/compiled', import.meta.url),
)
enableCompileCache(process.env.NODE_COMPILE_CACHE)

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
  const exit = error instanceof Exit ? error : exitOfSystem(error)
  if (exit === null) throw error
  process.stderr.write(`daicho: ${exit.message}\n`)
  process.exit(exit.code)
}

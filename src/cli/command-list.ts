import { Command } from 'commander'
import { backupCommand } from './commands/backup.ts'
import { configCommand } from './commands/config.ts'
import { copyCommand } from './commands/copy.ts'
import { countCommand } from './commands/count.ts'
import { diffCommand } from './commands/diff.ts'
import { doctorCommand } from './commands/doctor.ts'
import { dumpCommand } from './commands/dump.ts'
import { eraseCommand } from './commands/erase.ts'
import { exportCommand } from './commands/export.ts'
import { imageCommand } from './commands/image.ts'
import { importCommand, restoreCommand } from './commands/import.ts'
import { indexCommand } from './commands/indexes.ts'
import { loadCommand } from './commands/load.ts'
import { logCommand } from './commands/log.ts'
import { networkCommand } from './commands/network.ts'
import { peersCommand } from './commands/peers.ts'
import { ratesCommand } from './commands/rates.ts'
import { serveCommand } from './commands/serve.ts'
import { tokenCommand } from './commands/token.ts'
import { userCommand } from './commands/user.ts'
import { verifyCommand } from './commands/verify.ts'
import { VERSION } from './version.ts'

/** Creates all commands, in the order of the help. The files of commands load no other code than `cli` needs itself. */
export function createCommands(): Command[] {
  return [
    serveCommand(),
    verifyCommand(),
    backupCommand(),
    exportCommand(),
    copyCommand(),
    importCommand(),
    loadCommand(),
    dumpCommand(),
    logCommand(),
    peersCommand(),
    restoreCommand(),
    userCommand(),
    tokenCommand(),
    countCommand(),
    diffCommand(),
    eraseCommand(),
    indexCommand(),
    imageCommand(),
    ratesCommand(),
    networkCommand(),
    doctorCommand(),
    configCommand(),
  ]
}

/** Creates the program with all commands. The caller maps CommanderError to an exit code. */
export function createProgram(): Command {
  const program = new Command('daicho')
    .description('A ledger database that anyone can verify, with companion services')
    .version(VERSION)
    .showHelpAfterError('(see --help for usage)')
  for (const command of createCommands()) program.addCommand(command)
  inherit(program.exitOverride())
  return program
}

/** Applies the settings of `parent` to all its subcommands. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent).exitOverride()
    requireValues(command)
    inherit(command)
  }
}

/** Refuses a flag of `command` as the value of another flag, because that value was forgotten, as in `--out --json`. */
function requireValues(command: Command): void {
  const flags = new Set(['--help', ...command.options.map(({ long }) => long)])
  for (const option of command.options) {
    command.on(`option:${option.name()}`, (value: string | null) => {
      if (value !== null && flags.has(value))
        command.error(`error: option '${option.flags}' argument missing`)
    })
  }
}

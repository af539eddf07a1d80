import type { Command } from 'commander'

/** What the list of commands shows of one, and its code. */
interface ListedCommand {
  readonly name: string
  /** What stands behind its name. */
  readonly usage: string
  readonly about: string
  /** Called when it is run or asked for help: one command does not wait for what others are made of. */
  readonly load: () => Promise<Command>
}

/** All commands, in the order of the list. */
export const COMMANDS: readonly ListedCommand[] = [
  {
    name: 'serve',
    usage: '[options]',
    about: 'start the components, each on a port of its own',
    load: async () => (await import('./commands/serve.ts')).serveCommand(),
  },
  {
    name: 'verify',
    usage: '[options] <what>',
    about: 'show that a data folder, an export, a proof file or the log of a running node holds',
    load: async () => (await import('./commands/verify.ts')).verifyCommand(),
  },
  {
    name: 'backup',
    usage: '[options] <folder> <to>',
    about: 'copy a data folder to a new folder in <to>, also while its node runs',
    load: async () => (await import('./commands/backup.ts')).backupCommand(),
  },
  {
    name: 'export',
    usage: '[options] <folder>',
    about: 'write the chain of a data folder, with its proofs, as lines of JSON',
    load: async () => (await import('./commands/export.ts')).exportCommand(),
  },
  {
    name: 'import',
    usage: '[options] <file>',
    about: 'make the store of the node in SYSTEM_FOLDER from an export of it',
    load: async () => (await import('./commands/import.ts')).importCommand(),
  },
  {
    name: 'peers',
    usage: '',
    about: 'the peers of a running node: whose chains it mirrors, and how it stands',
    load: async () => (await import('./commands/peers.ts')).peersCommand(),
  },
  {
    name: 'restore',
    usage: '[options]',
    about: 'make the store of the node in SYSTEM_FOLDER again from a peer that mirrors it',
    load: async () => (await import('./commands/import.ts')).restoreCommand(),
  },
  {
    name: 'user',
    usage: '',
    about: 'users of the sample API in SYSTEM_FOLDER; a running node sees changes at once',
    load: async () => (await import('./commands/user.ts')).userCommand(),
  },
  {
    name: 'token',
    usage: '',
    about: 'tokens of the node in SYSTEM_FOLDER; a running node sees changes at once',
    load: async () => (await import('./commands/token.ts')).tokenCommand(),
  },
  {
    name: 'index',
    usage: '',
    about:
      'indexes that make filters fast, of the running node at --url or the resting one in SYSTEM_FOLDER',
    load: async () => (await import('./commands/indexes.ts')).indexCommand(),
  },
  {
    name: 'image',
    usage: '[options] <in> <out.xlsx>',
    about: 'turn an image into a workbook with one coloured cell per pixel',
    load: async () => (await import('./commands/image.ts')).imageCommand(),
  },
  {
    name: 'rates',
    usage: '[options]',
    about: 'print the current rates of the twenty pairs',
    load: async () => (await import('./commands/rates.ts')).ratesCommand(),
  },
  {
    name: 'network',
    usage: '',
    about: 'business networks: check, pack, deploy, upgrade, verify, identities',
    load: async () => (await import('./commands/network.ts')).networkCommand(),
  },
  {
    name: 'config',
    usage: '[options]',
    about: 'print the configuration in force; secrets are masked',
    load: async () => (await import('./commands/config.ts')).configCommand(),
  },
]

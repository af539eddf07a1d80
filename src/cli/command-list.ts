import type { Command } from 'commander'

/** All commands in the order of the help. Each command loads only its own modules. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./commands/serve.ts')).serveCommand(),
  verify: async () => (await import('./commands/verify.ts')).verifyCommand(),
  backup: async () => (await import('./commands/backup.ts')).backupCommand(),
  export: async () => (await import('./commands/export.ts')).exportCommand(),
  copy: async () => (await import('./commands/copy.ts')).copyCommand(),
  import: async () => (await import('./commands/import.ts')).importCommand(),
  load: async () => (await import('./commands/load.ts')).loadCommand(),
  dump: async () => (await import('./commands/dump.ts')).dumpCommand(),
  peers: async () => (await import('./commands/peers.ts')).peersCommand(),
  restore: async () => (await import('./commands/import.ts')).restoreCommand(),
  user: async () => (await import('./commands/user.ts')).userCommand(),
  token: async () => (await import('./commands/token.ts')).tokenCommand(),
  count: async () => (await import('./commands/count.ts')).countCommand(),
  index: async () => (await import('./commands/indexes.ts')).indexCommand(),
  image: async () => (await import('./commands/image.ts')).imageCommand(),
  rates: async () => (await import('./commands/rates.ts')).ratesCommand(),
  network: async () => (await import('./commands/network.ts')).networkCommand(),
  doctor: async () => (await import('./commands/doctor.ts')).doctorCommand(),
  config: async () => (await import('./commands/config.ts')).configCommand(),
}

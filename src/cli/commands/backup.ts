import { resolve, sep } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { type Backup, backupFolder, dropOldBackups } from '../../storage/index.ts'
import { count } from '../count.ts'
import { requireFolder, runOnData } from '../data-command.ts'
import { CONTENT_FOLDERS, DATA_FILES } from '../data-files.ts'
import { EXIT, Exit } from '../exit.ts'
import { ProgressLine } from '../progress.ts'

/** `daicho backup`. */
export function backupCommand(): Command {
  return new Command('backup')
    .argument('<folder>', 'a data folder')
    .argument('<to>', 'the folder of backups; each gets the time as its name')
    .option('--without-keys', 'leave out node.key and token-keys.json')
    .option('--no-verify', 'do not verify the copy')
    .addOption(
      new Option('--keep <number>', 'remove all but this many backups afterwards').argParser(
        parseKeep,
      ),
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: the backup is there. 1: it is not; the store does not hold, or there is no room.\n' +
        '2: nothing to back up. 78: another backup goes on in <to>.',
    )
    .action(backup)
}

interface BackupFlags {
  readonly withoutKeys?: boolean
  readonly verify: boolean
  readonly keep?: number
  readonly json?: boolean
}

async function backup(folder: string, to: string, flags: BackupFlags): Promise<void> {
  requireFolder(folder)
  if (`${resolve(to)}${sep}`.startsWith(`${resolve(folder)}${sep}`)) {
    throw new Exit(EXIT.usage, `${to} is in the folder that is to be backed up`)
  }
  const startedMs = systemClock.now()
  const line = new ProgressLine('backing up', process.stderr)
  const files = DATA_FILES.filter(({ isKey }) => !isKey || flags.withoutKeys !== true)
  const made = await runOnData(() =>
    backupFolder({
      folder,
      to,
      nowMs: startedMs,
      files: files.map(({ name }) => name),
      contentFolders: CONTENT_FOLDERS,
      verify: flags.verify,
      progress: (share, doing) => line.update(share, doing, systemClock.now()),
    }),
  )
  const { keep } = flags
  const isDropping = keep !== undefined && made.path !== null
  const removed = isDropping ? await runOnData(() => dropOldBackups(to, keep)) : []
  line.end()
  const seconds = (systemClock.now() - startedMs) / 1000
  const said =
    flags.json === true
      ? JSON.stringify(inJson(made, removed, flags))
      : inWords(made, removed, flags, seconds)
  process.stdout.write(`${said}\n`)
  process.exitCode = made.path === null ? EXIT.finding : EXIT.right
}

function inJson(made: Backup, removed: readonly string[], flags: BackupFlags) {
  const { path, serverId, blocks, headId, contents, verification } = made
  return {
    status: path !== null,
    path,
    serverId,
    blocks,
    headId,
    attachments: contents,
    keys: flags.withoutKeys !== true,
    verified: verification !== null && verification.finding === null,
    removed,
    finding: verification?.finding ?? null,
  }
}

function inWords(
  { path, serverId, blocks, headId, verification }: Backup,
  removed: readonly string[],
  flags: BackupFlags,
  seconds: number,
): string {
  const finding = verification?.finding ?? null
  if (path === null) {
    const { height, index } = finding ?? { height: null, index: null }
    const at =
      height === null ? '' : ` at height ${height}${index === null ? '' : `, entry ${index}`}`
    return `NO BACKUP: the store does not hold${at}: ${finding?.what}`
  }
  const held = verification === null ? 'not verified' : 'everything holds'
  return [
    `Backed up: ${count(blocks, 'block')}, ${held}.`,
    `folder     ${path}`,
    `server id  ${serverId}`,
    `head       ${headId ?? '(none)'}`,
    `keys       ${flags.withoutKeys === true ? 'left out: keep node.key elsewhere' : 'in it: keep it as safe as the node'}`,
    `time       ${seconds.toFixed(1)} s`,
    ...removed.map((name) => `removed    ${name}`),
  ].join('\n')
}

function parseKeep(text: string): number {
  const keep = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (keep < 1) throw new InvalidArgumentError('a number of backups is an integer from 1 on.')
  return keep
}

import { availableParallelism } from 'node:os'
import { Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../../base/clock.ts'
import {
  type ImportOptions,
  importAsNewChain,
  importExport,
  moveIntoDatabase,
  PeerClient,
  type Restored,
  requireOwnDatabase,
  restoreChain,
  rootUrl,
} from '../../ledger/core.ts'
import { readSettings, type Settings } from '../composition/settings.ts'
import { addFolderOption, nodeFolder, onStore } from '../node/node-folder.ts'
import {
  count,
  formatFields,
  type ProgressLine,
  paceText,
  print,
  shareDone,
  withProgress,
} from '../output/output.ts'
import { onExport, readBytes } from './export.ts'

export function importCommand(): Command {
  const command = new Command('import')
    .description('create the store of the node in SYSTEM_FOLDER from an export of its chain')
    .argument('<file>', 'a file written by daicho export, compressed or not; - for stdin')
    .option(
      '--key <vkey>',
      'verifier key of the chain, if node.key is lost: restores into a new chain',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER must contain the node.key of the exported node, and no store. Everything is verified\n' +
        'before the store is created.\n' +
        'Without that node.key, SYSTEM_FOLDER must be empty, and --key is the key of the chain: the databases\n' +
        'are restored into a new chain with a new key, and the old chain is kept as a mirror.\n' +
        'With STORE, the store is created in SYSTEM_FOLDER and then moved into that database, which must be empty.\n' +
        '\nExit code 0: the store was created. 1: the export is invalid; line, height and entry are printed.\n' +
        '2: the file is not an export. 78: the folder is not suitable.',
    )
    .action(importFrom)
  return addFolderOption(command)
}

type Progress = ImportOptions['progress']

interface ImportFlags {
  readonly key?: string
  readonly json?: boolean
}

async function importFrom(file: string, { key: vkey, json }: ImportFlags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: vkey !== undefined })
  const chunks = readBytes(file)
  const create = <Result>(importInto: (progress: Progress) => Promise<Result>) =>
    withProgress('importing', (line) =>
      onExport(file, () =>
        intoDatabase({ ...settings, folder, line }, () => importInto(line.showEntries)),
      ),
    )
  if (vkey !== undefined) {
    const { result, seconds } = await create((progress) =>
      importAsNewChain({
        ...{ folder, database: settings.STORE, vkey, chunks, progress, clock: systemClock },
        threads: availableParallelism() - 1,
      }),
    )
    print(json, restoredJson(folder, result), restoredText(result, seconds))
    return
  }
  const { result, seconds } = await create((progress) => importExport({ folder, chunks, progress }))
  const { serverId, blocks, entries, headId, blobs } = result
  const done = `Imported: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything is valid.`
  const missing = `${count(blobs, 'blob')}, not in the export: copy the folder attachments from a backup`
  const fields = {
    'server id': serverId,
    head: headId ?? '(none)',
    attached: blobs === 0 ? null : missing,
    time: paceText(entries, seconds),
  }
  const text = `${done}\n${formatFields(fields)}`
  print(json, { status: true, folder, serverId, blocks, entries, headId, blobs }, text)
}

export function restoreCommand(): Command {
  const command = new Command('restore')
    .description('restore the node in SYSTEM_FOLDER from a peer that mirrors its chain')
    .requiredOption('--from <url>', 'base URL of a node that has the chain')
    .requiredOption('--serverid <number>', 'server id of the chain', parseServerId)
    .option(
      '--key <vkey>',
      'verifier key of the chain, if node.key is lost: restores into a new chain',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nSYSTEM_FOLDER must contain the node.key of the node, and no store. Everything is verified against\n' +
        'that key before the store is created. After an interruption, run the command again to continue.\n' +
        'Without that node.key, SYSTEM_FOLDER must be empty, and everything is verified against --key: the\n' +
        'databases are restored into a new chain with a new key, and the old chain is kept as a mirror.\n' +
        'PEERS_ALLOW_PRIVATE=1 allows a peer on a private network.\n' +
        'With STORE, the store is created in SYSTEM_FOLDER and then moved into that database, which must be empty.\n' +
        '\nExit code 0: the store was created. 1: the peer does not answer, or its chain is invalid.\n' +
        '2: wrong arguments. 78: the folder is not suitable.',
    )
    .action(restore)
  return addFolderOption(command)
}

interface RestoreFlags {
  readonly from: string
  readonly serverid: number
  readonly key?: string
  readonly json?: boolean
}

async function restore({ from, serverid: serverId, key, json }: RestoreFlags): Promise<void> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: key !== undefined })
  const { PEERS_ALLOW_PRIVATE: allowPrivate } = settings
  const { result, seconds } = await withProgress('restoring', (line) =>
    onStore(async () => {
      const url = rootUrl(from)
      return intoDatabase({ ...settings, folder, line }, () =>
        restoreChain({
          ...{ folder, database: settings.STORE, serverId },
          ...{ vkey: key ?? null, clock: systemClock },
          source: (signer) => new PeerClient({ url, serverId, allowPrivate, signer }),
          progress: (done) => line.update(shareDone(done), `${done.blocks} blocks`),
          threads: availableParallelism() - 1,
        }),
      )
    }),
  )
  print(json, restoredJson(folder, result), restoredText(result, seconds))
}

interface DatabaseTarget extends Pick<Settings, 'STORE'> {
  readonly folder: string
  readonly line: ProgressLine
}

/** Runs `create`, which creates a store in the folder, and moves this store into the database STORE if STORE is set. */
async function intoDatabase<Result>(
  { STORE: to, folder: from, line }: DatabaseTarget,
  create: () => Promise<Result>,
): Promise<Result> {
  if (to === null) return create()
  await requireOwnDatabase(to, from)
  const created = await create()
  await moveIntoDatabase({
    ...{ from, to, threads: availableParallelism() },
    progress: (done) => line.update(shareDone(done), `${done.entries} entries to the database`),
  })
  return created
}

function restoredJson(folder: string, { own, mirrored, absent }: Restored) {
  const { serverId, blocks, entries, databases, items, headId } = own
  const from = mirrored === null ? {} : { mirrored: mirrored.serverId }
  return {
    ...{ status: true, folder, serverId, ...from, blocks, entries, databases, items, headId },
    absent,
  }
}

function restoredText({ own, mirrored, absent }: Restored, seconds: number): string {
  const { serverId, blocks, entries, databases, items, headId } = own
  const counted = `${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything is valid.`
  const done = mirrored === null ? 'Restored' : 'Restored into a new chain'
  const fields = {
    'server id': serverId,
    mirrored: mirrored && `${mirrored.serverId} with ${count(mirrored.blocks, 'block')}`,
    databases: `${databases} with ${count(items, 'item')}`,
    MISSING:
      absent === 0 ? null : `${count(absent, 'blob')} that the source does not have or cannot read`,
    head: headId ?? '(none)',
    time: paceText(entries + (mirrored?.entries ?? 0), seconds),
  }
  return `${done}: ${counted}\n${formatFields(fields)}`
}

function parseServerId(text: string): number {
  const serverId = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(serverId)) return serverId
  throw new InvalidArgumentError(
    'a server id must be an integer; GET /api/serverid of a node returns it.',
  )
}

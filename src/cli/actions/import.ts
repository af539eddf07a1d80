import { availableParallelism } from 'node:os'
import type { Author } from '../../base/author.ts'
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
import { EXIT } from '../exit.ts'
import { findCommandAuthor, refuseAuthor } from '../node/author.ts'
import { nodeFolder, onStore } from '../node/node-folder.ts'
import type { AuthorFlags } from '../node/node-options.ts'
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

type Progress = ImportOptions['progress']

interface ImportFlags extends AuthorFlags {
  readonly key?: string
  readonly json?: boolean
}

export async function runImport(file: string, flags: ImportFlags): Promise<void> {
  const { key: vkey, json } = flags
  const settings = readSettings(process.env)
  const by = findNewAuthor(settings, flags)
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
        ...{ by, threads: availableParallelism() - 1 },
      }),
    )
    printRestored(folder, result, seconds, json)
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

interface RestoreFlags extends AuthorFlags {
  readonly from: string
  readonly serverid: number
  readonly key?: string
  readonly json?: boolean
}

export async function runRestore(flags: RestoreFlags): Promise<void> {
  const { from, serverid: serverId, key, json } = flags
  const settings = readSettings(process.env)
  const by = findNewAuthor(settings, flags)
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
          ...{ by, threads: availableParallelism() - 1 },
        }),
      )
    }),
  )
  printRestored(folder, result, seconds, json)
}

/** Returns the author of the entries of a new chain, or null. Errors: Exit (usage) if the old chain is continued. */
function findNewAuthor(settings: Settings, flags: ImportFlags): Author | null {
  if (flags.key === undefined) refuseAuthor(flags, 'only a new chain, with --key, gets new entries')
  return findCommandAuthor(settings, flags)
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

/** Prints the result of a restore. The exit code is 1 if attachments are missing. */
function printRestored(
  folder: string,
  restored: Restored,
  seconds: number,
  json: boolean | undefined,
): void {
  const { own, mirrored, absent } = restored
  const { serverId, blocks, entries, databases, items, headId } = own
  const from = mirrored === null ? {} : { mirrored: mirrored.serverId }
  const status = absent === 0
  const counts = { ...from, blocks, entries, databases, items, headId, absent }
  print(json, { status, folder, serverId, ...counts }, restoredText(restored, seconds))
  process.exitCode = status ? EXIT.success : EXIT.finding
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

import { availableParallelism } from 'node:os'
import { Command } from 'commander'
import { type Copied, copyStore } from '../../ledger/core.ts'
import { displayName, isDatabaseUrl } from '../../storage/index.ts'
import { onStore, requireSourceFolder } from '../node/node-folder.ts'
import { count, formatFields, paceText, print, shareDone, withProgress } from '../output/output.ts'

export function copyCommand(): Command {
  return new Command('copy')
    .description('copy the store of a node between a folder and a PostgreSQL database')
    .argument('<from>', 'a data folder, or the postgres:// URL of a database')
    .argument('<to>', 'a folder or database without a store')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nCopies the chain, the databases, attachments, idempotency records and indexes, and verifies the copy.\n' +
        'Stop the node first. Then use only the copy, because two nodes with the same key would fork the chain.\n' +
        'Other files of a data folder, such as node.key, are not copied. PGPASSWORD can contain the password.\n' +
        '\nExit code 0: the copy is complete and valid. 1: it is not; the reason is printed. 2: wrong arguments.\n' +
        '78: <to> is not suitable.',
    )
    .action(copy)
}

async function copy(from: string, to: string, { json }: { json?: boolean }): Promise<void> {
  if (!isDatabaseUrl(from)) requireSourceFolder(from)
  const { result, seconds } = await withProgress('copying', (line) =>
    onStore(() =>
      copyStore({
        ...{ from, to, threads: availableParallelism() },
        progress: (done) => line.update(shareDone(done), `${done.entries} entries`),
      }),
    ),
  )
  const { serverId, blocks, entries, databases, items, contents, headId } = result
  const shown = { serverId, blocks, entries, databases, items, contents, headId }
  print(json, { status: true, to: displayName(to), ...shown }, copiedText(result, to, seconds))
}

function copiedText(copied: Copied, to: string, seconds: number): string {
  const { serverId, blocks, entries, contents, contentBytes, headId } = copied
  const done = `Copied: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}; everything is valid.`
  const fields = {
    to: displayName(to),
    'server id': serverId,
    attached:
      contents === 0 ? null : `${count(contents, 'blob')} of ${count(contentBytes, 'byte')}`,
    head: headId ?? '(none)',
    time: paceText(entries, seconds),
  }
  return `${done}\n${formatFields(fields)}`
}

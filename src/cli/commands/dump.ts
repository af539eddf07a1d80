import { Command, Option } from 'commander'
import { DUMP_FORMATS, type DumpFormat, dumpTexts, type ReadItems } from '../../exchange/index.ts'
import { LedgerReader } from '../../ledger/core.ts'
import { readSettings } from '../composition/settings.ts'
import { addFolderOption, nodeFolder, onStore } from '../node/node-folder.ts'
import { NodeItems } from '../node/node-items.ts'
import { addNodeOptions, type NodeFlags } from '../node/node-options.ts'
import { count, escapeControls, print, requireOwnOutput, withProgress } from '../output/output.ts'
import { requireFileName, writeTexts } from '../output/output-file.ts'

export function dumpCommand(): Command {
  const command = new Command('dump')
    .description(
      'write the items of a database as NDJSON, JSON or CSV, from the running node at --url or from SYSTEM_FOLDER',
    )
    .argument('<db>', 'name of the database')
    .option('--out <file>', 'output file, compressed if it ends in .gz; - for stdout', '-')
    .addOption(
      new Option('--format <name>', 'default: from the file name, otherwise ndjson').choices(
        DUMP_FORMATS,
      ),
    )
    .option('--gzip', 'compress the output')
    .addHelpText(
      'after',
      '\nThe dump shows the state after one block; its height is printed. A node may be running in SYSTEM_FOLDER.\n' +
        'With --url, the dump fails if the database changes during the dump. Attachments and histories are not part of a\n' +
        'dump; see daicho backup and daicho export.\n' +
        '\nExit code 0: the dump is complete. 1: it is not; no file was written. 2: wrong arguments. 78: the folder\n' +
        'is not suitable.',
    )
    .action(dump)
  return addFolderOption(addNodeOptions(command))
}

interface DumpFlags extends NodeFlags {
  readonly out: string
  readonly format?: DumpFormat
  readonly gzip?: boolean
}

async function dump(db: string, flags: DumpFlags): Promise<void> {
  const { out, json } = flags
  requireOwnOutput(out, json)
  requireFileName(out)
  const isCompressed = flags.gzip === true || out.endsWith('.gz')
  const format = flags.format ?? chooseFormat(out)
  const { result } = await withProgress('dumping', (line) =>
    onStore(async () => {
      const source = await openSource(db, flags)
      try {
        const progress = { items: 0 }
        const add = (items: number) => {
          progress.items += items
          line.update(null, `${progress.items} items`)
        }
        const texts = dumpTexts(() => counted(source.read(), add), format)
        const items = await writeTexts(checked(texts, source), out, isCompressed)
        return { items, height: source.height }
      } finally {
        await source.close()
      }
    }),
  )
  const { items, height } = result
  const text = `Dumped: ${count(items, 'item')} of ${db} as of block ${height}.`
  // Printed to stderr, because stdout must contain only the items.
  if (out === '-') process.stderr.write(`${escapeControls(text)}\n`)
  else print(json, { status: true, db, out, items, height }, text)
}

function chooseFormat(out: string): DumpFormat {
  const name = out.toLowerCase().replace(/\.gz$/, '')
  if (name.endsWith('.csv')) return 'csv'
  return name.endsWith('.json') ? 'json' : 'ndjson'
}

/** The items of a database in the state after one block. */
interface DumpSource {
  /** Height of that block; null if the node has no blocks. */
  readonly height: number | null
  readonly read: ReadItems
  /** Throws Exit (finding) if a block after `height` changed the database. */
  check(): Promise<void>
  close(): Promise<void>
}

async function openSource(db: string, { url, token }: DumpFlags): Promise<DumpSource> {
  if (url !== undefined) return NodeItems.open({ url, token }, db)
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  const reader = await LedgerReader.openSnapshot(settings.STORE ?? folder)
  try {
    await reader.requireDatabase(db)
    const height = await reader.height()
    return {
      height,
      async *read() {
        for await (const page of reader.listItems(db)) yield page.map(({ text }) => text)
      },
      check: async () => {},
      close: () => reader.close(),
    }
  } catch (error) {
    await reader.close()
    throw error
  }
}

async function* counted(
  pages: AsyncIterable<readonly string[]>,
  add: (items: number) => void,
): AsyncGenerator<readonly string[]> {
  for await (const page of pages) {
    yield page
    add(page.length)
  }
}

/** Yields `texts`, and checks the source before the output is complete, so that a failed dump leaves no file. */
async function* checked(
  texts: AsyncGenerator<string, number>,
  source: DumpSource,
): AsyncGenerator<string, number> {
  const items = yield* texts
  await source.check()
  return items
}

import { type DumpFormat, dumpTexts, type ReadItems } from '../../exchange/index.ts'
import { type FolderFlags, onStore } from '../node/node-folder.ts'
import { NodeItems } from '../node/node-items.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { openNodeReader } from '../node/node-reader.ts'
import { count, escapeControls, print, requireOwnOutput, withProgress } from '../output/output.ts'
import { requireFileName, writeTexts } from '../output/output-file.ts'

interface DumpFlags extends NodeFlags, FolderFlags {
  readonly out: string
  readonly format?: DumpFormat
  readonly gzip?: boolean
}

export async function runDump(db: string, flags: DumpFlags): Promise<void> {
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
        const texts = dumpTexts(() => countTexts(source.read(), add), format)
        const items = await writeTexts(checkAtEnd(texts, source), out, isCompressed)
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

async function openSource(db: string, flags: DumpFlags): Promise<DumpSource> {
  const { url, token } = flags
  if (url !== undefined) return NodeItems.open({ url, token }, db)
  const reader = await openNodeReader(flags)
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

async function* countTexts(
  pages: AsyncIterable<readonly string[]>,
  add: (items: number) => void,
): AsyncGenerator<readonly string[]> {
  for await (const page of pages) {
    yield page
    add(page.length)
  }
}

/** Yields `texts`, and checks the source before the output is complete, so that a failed dump leaves no file. */
async function* checkAtEnd(
  texts: AsyncGenerator<string, number>,
  source: DumpSource,
): AsyncGenerator<string, number> {
  const items = yield* texts
  await source.check()
  return items
}

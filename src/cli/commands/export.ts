import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { type ExportEnd, exportLines } from '../../ledger/core.ts'
import { openStoreReader } from '../../storage/index.ts'
import { count } from '../count.ts'
import { requireFolder, runOnData } from '../data-command.ts'
import { EXIT, Exit } from '../exit.ts'
import { ProgressLine, shareOf } from '../progress.ts'

/** `daicho export`. */
export function exportCommand(): Command {
  return new Command('export')
    .argument('<folder>', 'a data folder; its node may be running')
    .requiredOption('--out <file>', 'the file; compressed if it ends in .gz; - for stdout')
    .option('--json', 'print the result as one line of JSON; not together with --out -')
    .addHelpText(
      'after',
      '\nExit code 0: the file is whole. 1: there is none; the chain does not hold, or there is no room.\n' +
        '2: nothing to export. 78: the store needs another version.',
    )
    .action(exportTo)
}

interface ExportFlags {
  readonly out: string
  readonly json?: boolean
}

async function exportTo(folder: string, { out, json }: ExportFlags): Promise<void> {
  requireFolder(folder)
  if (out === '-' && json === true) {
    throw new Exit(EXIT.usage, '--json and --out - would both write to stdout')
  }
  if (out !== '-' && existsSync(out) && statSync(out).isDirectory()) {
    throw new Exit(EXIT.usage, `${out} is a folder: name a file`)
  }
  const startedMs = systemClock.now()
  const line = new ProgressLine('exporting', process.stderr)
  const end = await runOnData(() => exportFolder(folder, out, line))
  line.end()
  const seconds = (systemClock.now() - startedMs) / 1000
  const { blocks, entries, headId } = end
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ status: true, out, blocks, entries, headId })}\n`)
    return
  }
  const said = [
    `Exported: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}.`,
    `head       ${headId ?? '(none)'}`,
    `time       ${seconds.toFixed(1)} s`,
  ]
  // Where the export goes to stdout, nothing else does.
  const where = out === '-' ? process.stderr : process.stdout
  where.write(`${said.join('\n')}\n`)
}

async function exportFolder(folder: string, out: string, line: ProgressLine): Promise<ExportEnd> {
  const store = openStoreReader(folder, { frozen: false })
  try {
    const lines = exportLines(store, folder, (done) =>
      line.update(shareOf(done), `${done.entries} entries`, systemClock.now()),
    )
    return await (out === '-' ? toStdout(lines) : toFile(lines, out))
  } finally {
    await store.close()
  }
}

/** Passes `lines` through `write`; what the generator returns is what it comes to. */
async function written(
  lines: AsyncGenerator<string, ExportEnd>,
  write: (texts: AsyncGenerator<string>) => Promise<void>,
): Promise<ExportEnd> {
  let end: ExportEnd | null = null
  async function* texts(): AsyncGenerator<string> {
    end = yield* lines
  }
  await write(texts())
  if (end === null) throw new Exit(EXIT.finding, 'the output was closed before its end')
  return end
}

async function toStdout(lines: AsyncGenerator<string, ExportEnd>): Promise<ExportEnd> {
  try {
    return await written(lines, async (texts) => {
      await pipeline(Readable.from(texts), process.stdout, { end: false })
    })
  } catch (error) {
    const isClosed = error instanceof Error && 'code' in error && error.code === 'EPIPE'
    if (!isClosed) throw error
    throw new Exit(EXIT.finding, 'the output was closed before its end', { cause: error })
  }
}

/** The file gets its name when all of it is on the disk; until then, and after a crash, it has not. */
async function toFile(lines: AsyncGenerator<string, ExportEnd>, out: string): Promise<ExportEnd> {
  const partial = `${out}.${process.pid}.partial`
  try {
    // For its owner alone: the blinds in it open every commitment.
    const file = await open(partial, 'w', 0o600)
    let end: ExportEnd
    try {
      const sink = new Writable({
        write(chunk: Buffer, _, done) {
          file.writeFile(chunk).then(() => done(), done)
        },
      })
      const packing = out.endsWith('.gz') ? [createGzip()] : []
      end = await written(lines, async (texts) => {
        await pipeline([Readable.from(texts), ...packing, sink])
      })
      await file.sync()
    } finally {
      await file.close()
    }
    renameSync(partial, out)
    const folder = openSync(dirname(resolve(out)), 'r')
    fsyncSync(folder)
    closeSync(folder)
    return end
  } catch (error) {
    rmSync(partial, { force: true })
    throw error
  }
}

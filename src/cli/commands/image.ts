import { createWriteStream } from 'node:fs'
import { open, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import {
  ConversionWorkers,
  ConverterError,
  OPTION_NAMES,
  optionsOf,
  type Plan,
  WORKER_LIMITS,
} from '../../converter/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { ProgressLine } from '../progress.ts'
import { readSettings } from '../settings.ts'

/** Longer files are not read: no image that is decoded is as long. */
const FILE_BYTES_MAX = 256 * 1024 * 1024
/** More than for uploads, because the machine is the user's own: 5 bytes of memory per cell. */
const CELLS_MAX = 50_000_000
const MEMORY_BYTES_MAX = 2_000_000_000
/** No conversion takes longer, milliseconds. */
const CONVERSION_MS = 3_600_000

/** `daicho image`. */
export function imageCommand(): Command {
  return new Command('image')
    .argument('<in>', 'a JPEG, PNG, GIF, WebP, AVIF, TIFF, BMP or SVG file')
    .argument('<out.xlsx>', 'the workbook; replaced when it exists')
    .option('--px <pixels>', 'side of a cell, 1 to 546 (DEFAULT_PX, else 2)')
    .option('--width <cells>', 'cells across, up to 16384 (DEFAULT_WIDTH, else 100)')
    .option('--height <cells>', 'cells down; without it in proportion')
    .option('--colors <number>', 'different colours at most, up to 65428')
    .option(
      '--background <RRGGBB>',
      'colour behind transparent pixels; without it alpha is ignored',
    )
    .option('--resample <how>', 'cubic (smooth) or nearest (hard edges)')
    .option('--grayscale', 'shades of gray')
    .option('--zoom <percent>', 'magnification the sheet opens with, 10 to 400')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: the workbook is written. 1: the image is refused. 2: usage, or a file that cannot be\n' +
        'read or written.',
    )
    .action(image)
}

type ImageFlags = { readonly json?: boolean } & {
  readonly [name in (typeof OPTION_NAMES)[number]]?: string | boolean
}

async function image(from: string, to: string, flags: ImageFlags): Promise<void> {
  const settings = readSettings(process.env)
  const fields = new Map<string, string>()
  for (const name of OPTION_NAMES) {
    const value = flags[name]
    if (value !== undefined) fields.set(name, String(value))
  }
  const options = usage(() =>
    optionsOf(fields, { px: settings.DEFAULT_PX, width: settings.DEFAULT_WIDTH }),
  )
  const startedMs = systemClock.now()
  const bytes = await readImage(from)
  const job = { bytes, name: basename(from), options, cellsMax: CELLS_MAX } as const
  try {
    const { plan, bytesWritten } = await write({ ...job, product: 'workbook' }, to)
    report(plan, to, bytesWritten, (systemClock.now() - startedMs) / 1000, flags.json === true)
  } catch (error) {
    throw refused(error, from, flags.json === true)
  }
}

/** A bad option, in the words of the service but as a matter of usage. */
function usage<Value>(read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConverterError)) throw error
    throw new Exit(EXIT.usage, error.message.replace('the field ', '--'))
  }
}

async function readImage(path: string): Promise<Uint8Array> {
  try {
    const { size } = await stat(path)
    if (size > FILE_BYTES_MAX) {
      throw new Exit(EXIT.finding, `${path} has ${size} bytes; at most ${FILE_BYTES_MAX}`)
    }
    return await readFile(path)
  } catch (error) {
    if (error instanceof Exit) throw error
    throw new Exit(EXIT.usage, `${path} cannot be read: ${reason(error)}`, { cause: error })
  }
}

/** Writes beside `to` and moves it there at the end: a broken workbook never has its name. */
async function write(
  job: Parameters<ConversionWorkers['start']>[0],
  to: string,
): Promise<{ plan: Plan; bytesWritten: number }> {
  const workers = new ConversionWorkers({
    ...WORKER_LIMITS,
    workers: 1,
    nice: 0,
    memoryBytesMax: MEMORY_BYTES_MAX,
    conversionMs: CONVERSION_MS,
  })
  const interrupted = new AbortController()
  const stop = () => interrupted.abort(new Exit(EXIT.finding, 'interrupted; nothing was written'))
  process.once('SIGINT', stop).once('SIGTERM', stop)
  const line = new ProgressLine('converting', process.stderr)
  const part = `${to}.part`
  try {
    // Before any work: a folder that cannot be written to is not worth a long wait.
    await (await openPart(part)).close()
    const { plan, product } = await workers.start(job, interrupted.signal, (rows, ofRows) => {
      line.update(rows / ofRows, `${rows} of ${ofRows} rows`, systemClock.now())
    })
    const file = createWriteStream(part)
    await pipeline(product, file)
    await rename(part, to)
    return { plan, bytesWritten: file.bytesWritten }
  } catch (error) {
    await rm(part, { force: true })
    throw interrupted.signal.aborted ? interrupted.signal.reason : error
  } finally {
    line.end()
    process.off('SIGINT', stop).off('SIGTERM', stop)
    await workers.close()
  }
}

async function openPart(part: string): ReturnType<typeof open> {
  try {
    return await open(part, 'w')
  } catch (error) {
    throw new Exit(EXIT.usage, `${part} cannot be written: ${reason(error)}`, { cause: error })
  }
}

function reason(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

function report(plan: Plan, out: string, bytes: number, seconds: number, json: boolean): void {
  const { format, width, height, colors, distinct, grid } = plan
  const cells = grid.columns * grid.rows
  if (json) {
    const result = { status: true, out, bytes, seconds, format, width, height, ...grid, cells }
    process.stdout.write(`${JSON.stringify({ ...result, colors, distinct })}\n`)
    return
  }
  const kept = colors === distinct ? `${colors} colours` : `${colors} of ${distinct} colours`
  const size = bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`
  process.stdout.write(
    `${out}: ${grid.columns} × ${grid.rows} cells, ${kept}, ${size}, ${seconds.toFixed(1)} s\n`,
  )
}

/** What a refused image ends the program with. */
function refused(error: unknown, from: string, json: boolean): unknown {
  if (!(error instanceof ConverterError)) return error
  const { code, message } = error
  if (json) process.stdout.write(`${JSON.stringify({ status: false, code, message })}\n`)
  return new Exit(EXIT.finding, `${from}: ${message}`, { cause: error })
}

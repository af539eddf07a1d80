import { existsSync } from 'node:fs'
import { type FileHandle, readFile, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { writeFileInParts } from '../../base/files/durable-files.ts'
import {
  type ConversionPlan,
  ConversionWorkers,
  ConverterError,
  OPTION_NAMES,
  parseOptions,
  WORKER_LIMITS,
} from '../../converter/index.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit, formatReason } from '../exit.ts'
import { type ProgressLine, print, withProgress } from '../output/output.ts'
import { fileSink, followLink, requireFileName } from '../output/output-file.ts'

/** Maximum bytes of an image file. Larger files are not read. */
const FILE_BYTES_MAX = 256 * 1024 * 1024
/** Maximum number of cells, higher than for uploads to a server. They take 250 MB of memory, 5 bytes each. */
const CELLS_MAX = 50_000_000
const MEMORY_BYTES_MAX = 2_000_000_000
/** Maximum duration of a conversion, milliseconds. */
const CONVERSION_MS = 3_600_000

type ImageFlags = { readonly json?: boolean; readonly force?: boolean } & {
  readonly [name in (typeof OPTION_NAMES)[number]]?: string | boolean
}

export async function runImage(from: string, to: string, flags: ImageFlags): Promise<void> {
  const options = imageOptions(flags)
  requireTarget(from, to, flags.force === true)
  try {
    const { result, seconds } = await withProgress('converting', async (line) => {
      const job = { bytes: await readImage(from), name: basename(from), options }
      return convert({ ...job, cellsMax: CELLS_MAX, product: 'workbook' }, to, line)
    })
    printImage(result, to, seconds, flags.json)
  } catch (error) {
    if (!(error instanceof ConverterError)) throw error
    const { code, message } = error
    if (flags.json === true) print(true, { status: false, code, message }, '')
    throw new Exit(EXIT.finding, `${from}: ${message}`, { cause: error })
  }
}

/**
 * Returns the conversion options from the flags. Errors: Exit (usage) with the converter's message, in which the name
 * of the flag replaces the name of the form field.
 */
function imageOptions(flags: ImageFlags) {
  const settings = readSettings(process.env)
  const fields = new Map<string, string>()
  for (const name of OPTION_NAMES) {
    const value = flags[name]
    if (value !== undefined) fields.set(name, String(value))
  }
  try {
    return parseOptions(fields, { px: settings.DEFAULT_PX, width: settings.DEFAULT_WIDTH })
  } catch (error) {
    if (!(error instanceof ConverterError)) throw error
    throw new Exit(EXIT.usage, error.message.replace('the field ', '--'))
  }
}

/** Throws Exit (usage) as `requireFileName`, and if `to` exists and `isForced` is false. */
function requireTarget(from: string, to: string, isForced: boolean): void {
  requireFileName(to, [from])
  if (isForced || !existsSync(to)) return
  throw new Exit(EXIT.usage, `${to} exists: choose another name, or overwrite it with --force`)
}

async function readImage(path: string): Promise<Uint8Array> {
  try {
    const { size } = await stat(path)
    if (size > FILE_BYTES_MAX) {
      throw new Exit(
        EXIT.finding,
        `${path} is ${size} bytes long; the maximum is ${FILE_BYTES_MAX}`,
      )
    }
    return await readFile(path)
  } catch (error) {
    if (error instanceof Exit) throw error
    const reason = formatReason(error)
    const message =
      reason === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${reason}`
    throw new Exit(EXIT.usage, message, { cause: error })
  }
}

interface Converted {
  readonly plan: ConversionPlan
  readonly bytesWritten: number
}

/** Writes to a temporary file and renames it at the end, so that an incomplete workbook never gets the name `to`. */
async function convert(
  job: Parameters<ConversionWorkers['start']>[0],
  to: string,
  line: ProgressLine,
): Promise<Converted> {
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
  try {
    // Creates the file first, so that no image is converted if the folder is not writable.
    const write = async (file: FileHandle): Promise<Converted> => {
      const { plan, product } = await workers.start(job, interrupted.signal, (rows, ofRows) =>
        line.update(rows / ofRows, `${rows} of ${ofRows} rows`),
      )
      await pipeline(product, fileSink(file))
      return { plan, bytesWritten: (await file.stat()).size }
    }
    return await writeFileInParts(followLink(to), write, { mode: 0o666, inheritsOwner: false })
  } catch (error) {
    throw interrupted.signal.aborted ? interrupted.signal.reason : toWriteExit(error, to)
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
    await workers.close()
  }
}

/** Returns the error of a file that cannot be created as Exit (usage), and all other errors unchanged. */
function toWriteExit(error: unknown, path: string): unknown {
  const reason = formatReason(error)
  if (!(error instanceof Error && 'syscall' in error && error.syscall === 'open')) return error
  const message =
    reason === 'ENOENT'
      ? `there is no folder ${dirname(path)}`
      : `${path} cannot be written: ${reason}`
  return new Exit(EXIT.usage, message, { cause: error })
}

function printImage(
  { plan, bytesWritten: bytes }: Converted,
  out: string,
  seconds: number,
  isJson: boolean | undefined,
): void {
  const { format, width, height, colors, distinct, grid } = plan
  const cells = grid.columns * grid.rows
  const result = { status: true, out, bytes, seconds, format, width, height, ...grid, cells }
  const keptColors = colors === distinct ? `${colors} colours` : `${colors} of ${distinct} colours`
  const size = bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`
  const text = `${out}: ${grid.columns} × ${grid.rows} cells, ${keptColors}, ${size}, ${seconds.toFixed(1)} s`
  print(isJson, { ...result, colors, distinct }, text)
}

import {
  appendFileSync,
  createReadStream,
  existsSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { parseForeignJsonOrNull } from '../../base/strict-json.ts'
import {
  type ConflictPolicy,
  chooseIdMember,
  FormatError,
  findFormat,
  formatRecordLocation,
  type LoadCounts,
  LoadError,
  LoadProgress,
  type LoadRefusal,
  type LoadTarget,
  loadRecords,
  parseColumnTypes,
  RecordRefusal,
  readRecords,
  type SourceFormat,
  serviceTarget,
} from '../../exchange/index.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit, formatReason } from '../exit.ts'
import { findCommandAuthor, refuseAuthor } from '../node/author.ts'
import {
  itemIdFor,
  type LoadIdentity,
  LoadStateFile,
  newLoad,
  readStamp,
} from '../node/load-state.ts'
import { type FolderFlags, missingSource, nodeFolder, onStore } from '../node/node-folder.ts'
import type { AuthorFlags, NodeFlags } from '../node/node-options.ts'
import { nodeTarget } from '../node/node-target.ts'
import { openStoppedNode } from '../node/stopped-node.ts'
import {
  count,
  escapeControls,
  formatFields,
  paceText,
  print,
  withProgress,
} from '../output/output.ts'
import { requireFileName } from '../output/output-file.ts'
import { beforeSignal } from '../signals.ts'

/** Maximum number of refused records that are printed. The file of --refused has all of them. */
const SHOWN_REFUSALS_MAX = 20
const CHUNK_BYTES = 64 * 1024
/** Placeholder in the database name for the table of a record. */
const TABLE = '{table}'

interface LoadFlags extends NodeFlags, AuthorFlags, FolderFlags {
  readonly format?: SourceFormat
  readonly id?: string
  readonly schema?: string
  readonly attachments: boolean
  readonly onConflict: ConflictPolicy
  readonly refused?: string
  readonly resume?: boolean
  readonly state?: string
}

export async function runLoad(
  db: string,
  files: readonly string[],
  flags: LoadFlags,
): Promise<void> {
  const [first = '-'] = files
  requireArguments(db, files, flags)
  const format = flags.format ?? findFormat(first)
  const schema = flags.schema === undefined ? null : parseForeignJsonOrNull(readText(flags.schema))
  const columnTypes = flags.schema === undefined ? new Map() : parseColumnTypes(schema)
  const { target, name, close } = await openTarget(flags)
  try {
    const state = openState(flags, {
      ...{ db, target: name, files, stamps: files.map(readStamp), format, schema },
      ...{ id: flags.id ?? null, attachments: flags.attachments },
    })
    const { file, id, progress } = state
    const refusals = await prepareLoad(state, target, flags)
    const stopListening = beforeSignal(() => endInterrupted(state))
    const loading = withProgress('loading', (line) =>
      onStore(async () => {
        const input = new CountedInput(files)
        const withoutAttachments = !flags.attachments
        // The extension of a file name does not tell lines from arrays, and not which program wrote the file.
        const chosen = flags.format ?? (format === 'ndjson' ? null : format)
        const isGuess = flags.format === undefined
        const source = { isGuess, idMember: flags.id ?? null, columnTypes, withoutAttachments }
        const pages = input.pages({ format: chosen, ...source })
        return awaitLoad(
          loadRecords(pages, target, {
            chooseDatabase: (table) => databaseFor(db, table),
            idMember: chooseIdMember(format, flags.id),
            onConflict: flags.onConflict,
            loadId: id.loadId,
            newId: (record) => itemIdFor(id, record),
            progress,
            write: async (note) => file?.write(note),
            finished({ counts }, refused) {
              refusals.add(refused)
              const some = counts.refused === 0 ? '' : `, ${counts.refused} refused`
              line.update(input.share, `${counts.records} records${some}`)
            },
          }),
        )
      }),
    )
    const { result, seconds } = await loading.finally(stopListening)
    const { counts, unknown, failure } = result
    // A load that sent nothing cannot be resumed.
    const canResume = failure !== null && file !== null && !progress.isUnused
    file?.close(canResume)
    if (progress.isUnused && failure?.cause instanceof FormatError) throw failure.cause
    refusals.print()
    const { created } = progress
    printLoad(db, flags, { counts, unknown, failure, created, canResume, seconds })
  } finally {
    await close()
  }
}

/** Returns the state of the load, which is new or, with --resume, that of an interrupted load. Errors: Exit (usage). */
function openState({ state, resume }: LoadFlags, identity: LoadIdentity) {
  const [first = '-'] = identity.files
  const path = state ?? (identity.files.includes('-') ? null : `${first}.load`)
  const own = newLoad(systemClock.now())
  if (path === null) return { path, file: null, id: own, progress: new LoadProgress() }
  const file =
    resume === true
      ? LoadStateFile.resume(path, identity)
      : LoadStateFile.create(path, identity, own)
  return { path, file, id: file.load, progress: file.progress }
}

/**
 * Opens the file of --refused. Errors: Exit (usage) if it cannot be written, or if a database of the interrupted load was
 * deleted since then.
 */
async function prepareLoad(
  { path, file, progress }: ReturnType<typeof openState>,
  target: LoadTarget,
  { refused, resume }: LoadFlags,
): Promise<RefusalReport> {
  for (const [db, known] of progress.databases) {
    const creation = await target.findCreation(db)
    if (creation === known) continue
    const what = `database ${db} was deleted${creation === null ? '' : ' and created again'}`
    const hint = `to load everything, remove ${path}`
    throw new Exit(EXIT.usage, `this load cannot be resumed: ${what} since then; ${hint}`)
  }
  try {
    return new RefusalReport(refused, progress.position.counts.refused)
  } catch (error) {
    // Otherwise the next load would be refused because of this one, which loaded nothing.
    file?.close(resume === true)
    throw error
  }
}

/** Prints how to continue a load that a signal ends. */
function endInterrupted({ file, progress }: ReturnType<typeof openState>): void {
  const canResume = file !== null && !progress.isUnused
  file?.close(canResume)
  const hint = canResume
    ? 'to continue, run the command again with --resume'
    : `it cannot be continued, because ${progress.isUnused ? 'nothing was loaded' : 'there is no --state'}`
  process.stderr.write(`\ndaicho: the load was interrupted; ${hint}\n`)
}

interface EndedLoad {
  readonly counts: LoadCounts
  /** Number of changes that may be in the ledger or not. */
  readonly unknown: number
  readonly failure: LoadError | null
  /** Databases that the load has created. */
  readonly created: readonly string[]
  readonly canResume: boolean
  readonly seconds: number
}

/** Prints the result of a load. Errors: Exit (finding) unless the load is complete. */
function printLoad(db: string, { json }: LoadFlags, ended: EndedLoad): void {
  const { counts, unknown, failure, created, canResume } = ended
  const isNothing = counts.records > 0 && countLoaded(counts) + counts.skipped === 0
  const result = {
    status: failure === null && counts.refused === 0 && !isNothing,
    ...{ db, ...counts, unknown, databasesCreated: created, failure: failure?.message ?? null },
  }
  print(json, result, loadedText(db, ended))
  if (failure !== null) {
    const hint = canResume ? '; --resume continues the load' : ''
    throw new Exit(EXIT.finding, `the load ended early: ${failure.message}${hint}`)
  }
  if (isNothing) throw new Exit(EXIT.finding, 'the input has no record that could be loaded')
  if (counts.refused > 0) process.exitCode = EXIT.finding
}

/** Returns the database for a table of the source. Errors: RecordRefusal. */
function databaseFor(db: string, table: string | null): string {
  if (table !== null) return db.replaceAll(TABLE, table)
  if (!db.includes(TABLE)) return db
  throw new RecordRefusal(`the input does not tell the table: give a database without ${TABLE}`)
}

/** Throws Exit (usage) for a missing file, or for flags that cannot be combined. */
function requireArguments(db: string, files: readonly string[], flags: LoadFlags): void {
  for (const file of files) {
    if (file === '-') continue
    if (!existsSync(file)) throw missingSource('file', file)
    if (statSync(file).isDirectory()) {
      throw new Exit(EXIT.usage, `${file} is a folder: give the names of files`)
    }
  }
  const { format, id, onConflict, resume, state, refused } = flags
  const stateFile = state ?? `${files[0]}.load`
  const inputs = [...files, flags.schema ?? '-', stateFile]
  // A device, such as /dev/null, is written to, not replaced.
  if (refused !== undefined && statSync(refused, { throwIfNoEntry: false })?.isFile() === true)
    requireFileName(refused, inputs)
  const mistakes: readonly (readonly [isMade: boolean, message: string])[] = [
    [
      resume === true && state === undefined && files.includes('-'),
      '--resume needs --state for a load from stdin: give the same --state to the load and to --resume',
    ],
    [
      state !== undefined && files.includes(state),
      `--state ${state} is the input itself: choose another name`,
    ],
    [
      refused !== undefined && resolve(refused) === resolve(stateFile),
      `--refused ${refused} is the file for the progress of the load: choose another name`,
    ],
    [
      format === 'qldb' && onConflict === 'skip',
      '--on-conflict skip with --format qldb would mix two histories: use --on-conflict replace, or another database',
    ],
    [
      format === 'qldb' && id !== undefined,
      '--id cannot be combined with --format qldb: the id of a QLDB document is always the id of its item',
    ],
    [
      db.includes(TABLE) && format !== 'qldb',
      `${TABLE} requires --format qldb, because other formats have no tables`,
    ],
  ]
  for (const [isMade, message] of mistakes) if (isMade) throw new Exit(EXIT.usage, message)
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Exit(EXIT.usage, `${path} cannot be read: ${formatReason(error)}`, { cause: error })
  }
}

/** The target of a load, and its name in the state file. */
interface OpenTarget {
  readonly target: LoadTarget
  readonly name: string
  close(): Promise<void>
}

async function openTarget(flags: LoadFlags): Promise<OpenTarget> {
  const { url, token } = flags
  if (url !== undefined) {
    refuseAuthor(flags, 'the running node takes the author from the token')
    return { target: nodeTarget({ url, token }), name: url, close: async () => {} }
  }
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  const by = findCommandAuthor(settings, flags)
  const { service, close } = await openStoppedNode(settings, folder, flags)
  return { target: serviceTarget(service, by), name: resolve(folder), close }
}

/** Waits until a load ends. Returns its counts, and the error that ended the load early. */
async function awaitLoad(loading: Promise<LoadCounts>) {
  try {
    return { counts: await loading, unknown: 0, failure: null }
  } catch (error) {
    if (!(error instanceof LoadError)) throw error
    return { counts: error.counts, unknown: error.unknown, failure: error }
  }
}

/** Reads files one after the other, and counts the bytes. */
class CountedInput {
  readonly #files: readonly string[]
  readonly #bytes: number | null
  #read = 0

  constructor(files: readonly string[]) {
    this.#files = files
    let bytes = 0
    for (const file of files) bytes += file === '-' ? 0 : statSync(file).size
    this.#bytes = files.includes('-') ? null : bytes
  }

  /** The fraction of the bytes that have been read, from 0 to 1; null if the total is unknown. */
  get share(): number | null {
    return this.#bytes === null ? null : Math.min(1, this.#read / Math.max(1, this.#bytes))
  }

  /** Yields the records of all files. With several files, each record contains the name of its file. */
  async *pages(options: Parameters<typeof readRecords>[1]): ReturnType<typeof readRecords> {
    const isOne = this.#files.length === 1
    for (const file of this.#files) {
      for await (const page of readRecords(this.#chunks(file), options)) {
        yield isOne ? page : page.map((record) => ({ ...record, file }))
      }
    }
  }

  async *#chunks(file: string): AsyncGenerator<Uint8Array> {
    const stream =
      file === '-' ? process.stdin : createReadStream(file, { highWaterMark: CHUNK_BYTES })
    for await (const chunk of stream) {
      this.#read += chunk.length
      yield chunk
    }
  }
}

/** Reports refused records: all of them to a file, or the first ones to stderr. */
class RefusalReport {
  readonly #path: string | undefined
  #shown: LoadRefusal[] = []
  #more = 0

  /**
   * Creates the file at `path`. A resumed load keeps the `known` refusals of finished batches, the first lines of the
   * file. Errors: Exit (usage) if the file cannot be written.
   */
  constructor(path: string | undefined, known: number) {
    this.#path = path
    try {
      if (path === undefined) return
      const before = known > 0 && existsSync(path) ? readFileSync(path) : Buffer.alloc(0)
      let length = 0
      for (let lines = 0; lines < known && length < before.length; lines += 1) {
        const end = before.indexOf('\n', length)
        length = end === -1 ? before.length : end + 1
      }
      writeFileSync(path, before.subarray(0, length))
    } catch (error) {
      throw new Exit(EXIT.usage, `${path} cannot be written: ${formatReason(error)}`, {
        cause: error,
      })
    }
  }

  add(refusals: readonly LoadRefusal[]): void {
    if (refusals.length === 0) return
    if (this.#path !== undefined) {
      const lines = refusals.map(
        ({ file, line, reason }) => `${JSON.stringify({ file, line, reason })}\n`,
      )
      appendFileSync(this.#path, lines.join(''))
      return
    }
    const shown = refusals.slice(0, SHOWN_REFUSALS_MAX - this.#shown.length)
    this.#shown.push(...shown)
    this.#more += refusals.length - shown.length
  }

  print(): void {
    const lines = this.#shown.map(
      (refusal) => `${formatRecordLocation(refusal)} refused: ${refusal.reason}\n`,
    )
    if (this.#more > 0) lines.push(`${this.#more} more refused; --refused <file> lists all\n`)
    process.stderr.write(lines.map(escapeControls).join(''))
  }
}

function countLoaded({ created, replaced, deleted }: LoadCounts): number {
  return created + replaced + deleted
}

function loadedText(db: string, { counts, unknown, created, seconds }: EndedLoad): string {
  const { created: items, replaced, deleted, attachments, skipped, refused, leftOut } = counts
  const isNothing = countLoaded(counts) === 0
  const nothing = unknown > 0 ? 'Nothing is known to be loaded.' : 'Nothing was loaded.'
  const first = isNothing ? nothing : `Loaded: ${count(items, 'new item')} into ${db}.`
  const some = (number: number, one: string) => (number === 0 ? null : count(number, one))
  const fields = {
    created: created.length === 0 ? null : created.join(', '),
    updated: some(replaced, 'time'),
    deleted: some(deleted, 'item'),
    attached: some(attachments, 'attachment'),
    skipped: some(skipped, 'record'),
    'left out': Object.entries(leftOut).map(([reason, number]) => `${number} ${reason}`),
    REFUSED: some(refused, 'record'),
    UNKNOWN: unknown === 0 ? null : `${count(unknown, 'change')} may be in the ledger or not`,
    time: paceText(counts.records, seconds, 'records'),
  }
  return `${first}\n${formatFields(fields)}`
}

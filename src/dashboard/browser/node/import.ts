import { fileRecords, findRecordEnd, findUtf16 } from '../../../exchange/portable.ts'
import { isItemId } from '../text/json.ts'
import { type LocatedChange, type RefusedChange, recordBatches } from './batches.ts'

/** The rule for a record whose id exists: it is refused, left out, or replaces the item. */
export type ExistingPolicy = 'fail' | 'skip' | 'replace'

export interface RefusedLine {
  readonly line: number
  readonly reason: string
  /** The record as it is in the file; null for a JSON array. */
  readonly text: string | null
}

export interface ImportReport {
  readonly created: number
  readonly replaced: number
  readonly skipped: number
  readonly refused: readonly RefusedLine[]
  /** The lines before the first record, such as the header of CSV. */
  readonly header: string
}

export interface FileImportOptions {
  readonly db: string
  readonly isCsv: boolean
  readonly policy: ExistingPolicy
  readonly signal: AbortSignal
  /** Called with the number of finished records. */
  readonly progress: (done: number) => void
}

/** Returns the bytes of `file` in UTF-8 without a byte order mark. Spreadsheets also save texts in UTF-16. */
export async function readUtf8(file: Blob): Promise<Uint8Array> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  if (`${bytes.subarray(0, 3)}` === '239,187,191') return bytes.subarray(3)
  const encoding = findUtf16(bytes)
  if (encoding === null) return bytes
  return new TextEncoder().encode(new TextDecoder(encoding).decode(bytes))
}

/**
 * Creates the items of a file in `db`, with the rules of `daicho load`: a refused record does not stop the others. Errors:
 * ClientError; InputError if the file cannot be read at all.
 */
export async function importFile(
  bytes: Uint8Array,
  options: FileImportOptions,
): Promise<ImportReport> {
  const { db, isCsv, policy, signal, progress } = options
  const refused: { line: number; reason: string }[] = []
  const starts: number[] = []
  async function* changes(): AsyncGenerator<LocatedChange> {
    for await (const page of fileRecords(bytes, isCsv)) {
      for (const record of page) {
        const { line } = record
        starts.push(line)
        if (record.kind === 'refused') refused.push({ line, reason: record.reason })
        if (record.kind !== 'item') continue
        const { item } = record
        const reason = findIdFault(item.id)
        if (reason !== null) refused.push({ line, reason })
        else yield { line, change: { method: 'create_item', db, item } }
      }
    }
  }
  const report = await recordBatches(changes(), {
    signal,
    progress: ({ recorded, refused: others }) =>
      progress(recorded + others.length + refused.length),
  })
  const isExisting = ({ code }: RefusedChange) => code === 'ITEM_EXISTS' && policy !== 'fail'
  const existing = report.refused.filter(isExisting)
  const updates = policy === 'replace' ? existing.map(({ change }) => toUpdate(change)) : []
  const updated = await recordBatches(inTurn(updates), { signal })
  const others = [...report.refused.filter((one) => !isExisting(one)), ...updated.refused]
  const all = [
    ...refused,
    ...others.map(({ change, reason }) => ({ line: change.line ?? 0, reason })),
  ]
  const lines = splitLines(bytes)
  const ends = new Map(starts.map((start, at) => [start, starts[at + 1]]))
  /** Returns the lines of the record that starts at `line`, up to the next record. */
  const slice = (line: number) =>
    joinLines(lines.slice(line - 1, (ends.get(line) ?? lines.length + 1) - 1))
  const hasLines = !isArray(bytes, isCsv)
  return {
    created: report.recorded,
    replaced: updated.recorded,
    skipped: policy === 'skip' ? existing.length : 0,
    refused: all
      .toSorted((one, other) => one.line - other.line)
      .map((one) => ({ ...one, text: hasLines ? slice(one.line) : null })),
    header: joinLines(lines.slice(0, (starts[0] ?? 1) - 1)),
  }
}

function findIdFault(id: unknown): string | null {
  if (typeof id === 'number') return 'its id is a number'
  if (typeof id !== 'string' || isItemId(id)) return null
  return 'an id has 1 to 256 bytes, no control character and no slash, and is not . or ..'
}

async function* inTurn<Value>(values: readonly Value[]): AsyncGenerator<Value> {
  yield* values
}

function toUpdate({ change, ...located }: LocatedChange): LocatedChange {
  const method = change.method === 'create_item' ? 'update_item' : change.method
  return { ...located, change: { ...change, method } as typeof change }
}

/** Splits a file at the line ends of its records. Others can be in quoted cells. */
function splitLines(bytes: Uint8Array): readonly string[] {
  return new TextDecoder().decode(bytes).split(findRecordEnd(bytes))
}

/** Joins lines without the line end of the last one. Spaces and tabs at its end belong to the record. */
function joinLines(lines: readonly string[]): string {
  return lines.join('\n').replace(/[\r\n]+$/, '')
}

function isArray(bytes: Uint8Array, isCsv: boolean): boolean {
  return !isCsv && bytes.find((byte) => byte > 0x20) === 0x5b
}

import { type ChangeInput, ClientError } from '../../../client/index.ts'
import { ledger } from './ledger.ts'

/** Maximum changes and bytes of a batch, which is one unit of work. A request can be up to 10 MiB. */
const CHANGES_MAX = 1_000
const BYTES_MAX = 4 * 1024 * 1024

/** A change that comes from the record at `line` of a file, or from an item. */
export interface LocatedChange {
  readonly change: ChangeInput
  readonly line?: number
}

export interface RefusedChange {
  readonly change: LocatedChange
  readonly code: string
  readonly reason: string
}

export interface BatchOptions {
  readonly signal: AbortSignal
  /** Called after each batch and each refused change. */
  readonly progress?: (report: BatchReport) => void
  /** Why the changes are made, or empty. */
  readonly reason?: string
}

export interface BatchReport {
  readonly recorded: number
  readonly refused: readonly RefusedChange[]
}

/**
 * Records `changes` in batches, each of which is one block or nothing. If the node refuses a batch because of one change,
 * the batch is halved until the refused change is alone. Errors: ClientError for a failure that is not about a change; the
 * reason of `signal`, after the batch that is being sent, so that the last progress counts all recorded changes.
 */
export async function recordBatches(
  changes: AsyncIterable<LocatedChange>,
  { signal, progress, reason = '' }: BatchOptions,
): Promise<BatchReport> {
  const refused: RefusedChange[] = []
  let recorded = 0
  const send = async (batch: readonly LocatedChange[]): Promise<void> => {
    signal.throwIfAborted()
    try {
      const entries = batch.map(({ change }) => change)
      await ledger.record(entries, reason === '' ? {} : { reason })
      recorded += batch.length
    } catch (error) {
      const [first, ...others] = batch
      if (first === undefined || !isAboutChange(error)) throw error
      if (others.length > 0) {
        const half = Math.ceil(batch.length / 2)
        await send(batch.slice(0, half))
        return send(batch.slice(half))
      }
      refused.push({ change: first, code: error.code, reason: error.message })
    }
    progress?.({ recorded, refused })
  }
  const encoder = new TextEncoder()
  let batch: LocatedChange[] = []
  let bytes = 0
  for await (const change of changes) {
    const { length } = encoder.encode(JSON.stringify(change.change))
    if (batch.length > 0 && (batch.length === CHANGES_MAX || bytes + length > BYTES_MAX)) {
      await send(batch)
      batch = []
      bytes = 0
    }
    batch.push(change)
    bytes += length
  }
  if (batch.length > 0) await send(batch)
  return { recorded, refused }
}

/** Whether another batch can succeed, because the node refuses an item of this one. */
function isAboutChange(error: unknown): error is ClientError {
  return error instanceof ClientError && /^(?:BODY|ITEM|JSON|VALUE|UNIT|REQUEST)_/.test(error.code)
}

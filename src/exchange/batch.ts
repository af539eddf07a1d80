import { operationKey, type PlannedChange } from './changes.ts'
import type { LeftOutRecord, RefusedRecord } from './formats/record.ts'
import type { ChangeDecision, LoadRefusal } from './progress.ts'

/** Maximum records per batch. A batch fits into one block of the ledger, which has at most 1,024 entries. */
export const BATCH_RECORDS = 1_000
/** Maximum bytes of a batch, unless a single item is larger. A request can be up to 10 MiB. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024
/** Maximum bytes of attachments in memory per batch, unless a single record has more. */
const BATCH_ATTACHMENT_BYTES_MAX = 16 * 1024 * 1024

type Planned = PlannedChange | RefusedRecord | LeftOutRecord

/** The records that become one unit of work. */
export class Batch {
  readonly number: number
  readonly changes: PlannedChange[] = []
  readonly refusals: LoadRefusal[] = []
  readonly leftOut: Record<string, number> = {}
  /** `operationKey` of each changed item that may exist already. */
  readonly keys = new Set<string>()
  /** The decisions about the changes; empty until the batch is recorded. */
  decisions: readonly ChangeDecision[] = []
  records = 0
  isDone = false
  #bytes = 0
  #attachmentBytes = 0
  #isAlone = false

  constructor(number: number) {
    this.number = number
  }

  /** Adds a record. Returns false if the batch is full; a record fits into an empty batch. */
  add(planned: Planned): boolean {
    const { bytes, attachmentBytes, isAlone } = measureChange(planned)
    const isFull =
      this.records === BATCH_RECORDS ||
      this.#isAlone ||
      isAlone ||
      this.#bytes + bytes > BATCH_BYTES_MAX ||
      this.#attachmentBytes + attachmentBytes > BATCH_ATTACHMENT_BYTES_MAX
    if (isFull && this.records > 0) return false
    this.records += 1
    this.#bytes += bytes
    this.#attachmentBytes += attachmentBytes
    this.#isAlone = isAlone
    if (planned.kind === 'refused') this.refusals.push(planned)
    if (planned.kind === 'left-out') {
      this.leftOut[planned.reason] = (this.leftOut[planned.reason] ?? 0) + 1
    }
    if (planned.kind !== 'change') return true
    this.changes.push(planned)
    const { operation } = planned
    const isNewId = operation.kind === 'create_item' && operation.assigned
    if (!isNewId) this.keys.add(operationKey(operation))
    return true
  }
}

function measureChange(planned: Planned) {
  if (planned.kind !== 'change') return { bytes: 0, attachmentBytes: 0, isAlone: false }
  const { operation, attachments, isAlone } = planned
  let attachmentBytes = 0
  for (const { bytes } of attachments) attachmentBytes += bytes.length
  return {
    bytes: 'text' in operation ? Buffer.byteLength(operation.text) : 0,
    ...{ attachmentBytes, isAlone },
  }
}

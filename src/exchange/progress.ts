import type { Located } from './formats/record.ts'

export interface LoadCounts {
  /** Records of the input that are settled: recorded, skipped, refused or left out. */
  readonly records: number
  readonly created: number
  readonly replaced: number
  readonly deleted: number
  readonly attachments: number
  /** Records that were left out because their item existed and the conflict policy is `skip`. */
  readonly skipped: number
  readonly refused: number
  /** Number of records that the format leaves out, for each reason, such as design documents of CouchDB. */
  readonly leftOut: Readonly<Record<string, number>>
}

export const NO_COUNTS: LoadCounts = {
  ...{ records: 0, created: 0, replaced: 0, deleted: 0 },
  ...{ attachments: 0, skipped: 0, refused: 0, leftOut: {} },
}

export function sumCounts(one: LoadCounts, other: LoadCounts): LoadCounts {
  const leftOut = { ...one.leftOut }
  for (const [reason, count] of Object.entries(other.leftOut)) {
    leftOut[reason] = (leftOut[reason] ?? 0) + count
  }
  return {
    records: one.records + other.records,
    created: one.created + other.created,
    replaced: one.replaced + other.replaced,
    deleted: one.deleted + other.deleted,
    attachments: one.attachments + other.attachments,
    skipped: one.skipped + other.skipped,
    refused: one.refused + other.refused,
    leftOut,
  }
}

export interface LoadRefusal extends Located {
  readonly reason: string
}

/** Number of finished batches at the start of the input, and their counts. */
export interface LoadPosition {
  readonly batches: number
  readonly counts: LoadCounts
}

/**
 * A step of a load, written down so that an interrupted load continues exactly where it ended. `creating`, `plan`
 * and `sent` are written before their request; the others follow the reply.
 */
export type LoadNote =
  | { readonly creating: string }
  | { readonly notCreated: string }
  /** The database exists. `creation` is the position of the entry that created it; null if the token may not know. */
  | { readonly created: string; readonly isNew: boolean; readonly creation: string | null }
  /** The batch is sent with these decisions (`formatDecisions`). `digest` is the SHA-256 of its changes. */
  | { readonly batch: number; readonly plan: string; readonly digest: string }
  | { readonly batch: number; readonly isRecorded: boolean }
  /** The next attachment of the recorded batch is sent, or was stored, refused, or not stored for another reason. */
  | { readonly batch: number; readonly attachment: 'sent' | 'not-stored' | AttachmentOutcome }
  | { readonly finished: LoadPosition }

type AttachmentOutcome = 'stored' | LoadRefusal

/** A batch that was sent and is not finished. Until a reply is noted, it may or may not be in the ledger. */
export interface SentBatch {
  readonly plan: string
  readonly digest: string
  readonly isRecorded: boolean
  /** The attachments that are settled, in the order of the batch. */
  readonly attachments: readonly AttachmentOutcome[]
  /** Whether the next attachment was sent. Then it may or may not be in the ledger. */
  readonly isAttaching: boolean
}

/** The progress of a load, computed from its notes. */
export class LoadProgress {
  position: LoadPosition = { batches: 0, counts: NO_COUNTS }
  /** Databases whose creation was requested and not answered. */
  readonly creating = new Set<string>()
  /** Databases that the load has created. */
  readonly created: string[] = []
  /** The databases of the load, each with the position of the entry that created it. */
  readonly databases = new Map<string, string | null>()
  readonly sent = new Map<number, SentBatch>()

  add(note: LoadNote): void {
    if ('creating' in note) this.creating.add(note.creating)
    else if ('notCreated' in note) this.creating.delete(note.notCreated)
    else if ('created' in note) {
      this.creating.delete(note.created)
      this.databases.set(note.created, note.creation)
      if (note.isNew) this.created.push(note.created)
    } else if ('finished' in note) {
      this.position = note.finished
      this.sent.delete(note.finished.batches - 1)
    } else if ('plan' in note) {
      const { plan, digest } = note
      this.sent.set(note.batch, {
        plan,
        digest,
        isRecorded: false,
        attachments: [],
        isAttaching: false,
      })
    } else this.#addOutcome(note)
  }

  /** Whether nothing was loaded, and nothing was sent whose outcome is unknown. */
  get isUnused(): boolean {
    return this.position.batches === 0 && this.sent.size === 0 && this.creating.size === 0
  }

  #addOutcome(note: Extract<LoadNote, { batch: number }>): void {
    const sent = this.sent.get(note.batch)
    if (sent === undefined) return
    if ('attachment' in note) {
      const { attachment } = note
      const isAttaching = attachment === 'sent'
      const isSettled = !isAttaching && attachment !== 'not-stored'
      const attachments = isSettled ? [...sent.attachments, attachment] : sent.attachments
      this.sent.set(note.batch, { ...sent, attachments, isAttaching })
    } else if ('isRecorded' in note) {
      if (note.isRecorded) this.sent.set(note.batch, { ...sent, isRecorded: true })
      else this.sent.delete(note.batch)
    }
  }
}

/** Returns the counts of the changes and attachments of a batch, if the batch is recorded. */
export function countChanges({ plan, attachments }: SentBatch): LoadCounts {
  const decisions = parseDecisions(plan)
  const count = (decision: ChangeDecision) => decisions.filter((each) => each === decision).length
  const stored = attachments.filter((each) => each === 'stored').length
  return {
    ...NO_COUNTS,
    ...{ created: count('c'), replaced: count('u'), deleted: count('d'), attachments: stored },
  }
}

/** The decision about a change: create, update or delete the item, skip the record, or nothing. */
export type ChangeDecision = 'c' | 'u' | 'd' | 's' | '-'

/** Writes decisions with the length of each run, such as `998c2u`. */
export function formatDecisions(decisions: readonly ChangeDecision[]): string {
  return decisions.join('').replace(/(.)\1*/g, (run, decision) => `${run.length}${decision}`)
}

export function parseDecisions(text: string): ChangeDecision[] {
  const runs = text.matchAll(/(\d{1,4})([cuds-])/g)
  // The pattern admits only decisions.
  return [...runs].flatMap(([, n, each]) => Array(Number(n)).fill(each as ChangeDecision))
}

import { fromBase64, toBase64 } from '../../../base/base64.ts'
import {
  type Checkpoint,
  type Fetch,
  ProofError,
  type ProofErrorCode,
  type VerifierKey,
  VerifyingReader,
  type VerifySignature,
} from '../../../chain/portable.ts'
import { findDifferences } from '../text/json.ts'
import { type FaultCode, FaultFound } from './checks.ts'
import { type KnownNode, type Remembered, requireKey } from './known-chain.ts'

/** The node that must prove a revision. */
export interface ProofSource extends KnownNode {
  readonly fetch: Fetch
}

/** A revision as shown by the page. */
export interface ShownItem {
  readonly db: string
  readonly id: string
  /** Position of the entry of the revision: `<height>.<index>`; null if the page shows that there is no such item. */
  readonly position: string | null
  /** The content, or undefined if the revision deleted the item or was erased. */
  readonly item: unknown
}

/** The items of a database, of which the page shows some. */
export interface ShownList {
  readonly db: string
  /** The ids on the page. */
  readonly ids: readonly string[]
  /** Number of items of the database. */
  readonly count: number
}

/** Reasons why a revision is not proven. `Texts.faults` has a sentence for each reason. */
export type RefusalCode = FaultCode | 'proof' | 'otherItem' | 'otherList' | 'unanswered'

/** A proven fact, or the reason why it is not proven. */
type Proven<Fact> =
  | { readonly refused: RefusalCode }
  | ({
      readonly refused: null
      /** Whether this browser has verified the node with the same key before. */
      readonly isKeyKnown: boolean
      /** The checkpoint with which the next verification is compared. */
      readonly remember: Remembered
    } & Fact)

export interface ItemFacts {
  /** Number of blocks that the checkpoint covers. */
  readonly size: number
  /** Milliseconds since the Unix epoch by the clock of the node, or null if the revision was erased, or for no item. */
  readonly timestamp: number | null
  readonly isErased: boolean
  /** The newest revision according to the signed state; null if the node provides no signed state. */
  readonly newest: NewestRevision | null
}

interface NewestRevision {
  /** Null if there is no such item. */
  readonly position: string | null
  /** Number of blocks that the signed state covers. */
  readonly size: number
}

export type ItemVerdict = Proven<ItemFacts>
/** `size` is the number of blocks that the signed state covers, and `count` the number of all items. */
export type ListVerdict = Proven<{ readonly size: number; readonly count: number }>

const REFUSALS: Readonly<Partial<Record<ProofErrorCode, RefusalCode>>> = {
  NOTE_UNSIGNED: 'signature',
  NOTE_FORGED: 'signature',
  NOTE_MALFORMED: 'checkpoint',
  CHECKPOINT_MALFORMED: 'checkpoint',
  CHECKPOINT_FOREIGN: 'checkpoint',
  LOG_ROLLED_BACK: 'rolledBack',
  LOG_FORKED: 'forked',
  ITEM_OTHER: 'otherItem',
  SERVER_FAILED: 'unanswered',
}

/**
 * Verifies that a checkpoint signed with the key of the node covers the shown revision, that this checkpoint is
 * consistent with the remembered checkpoint, and which revision the signed state has. Errors: those of `source.fetch`.
 */
export async function proveItem(
  verifySignature: VerifySignature,
  source: ProofSource,
  { db, id, position, item }: ShownItem,
): Promise<ItemVerdict> {
  return proving(verifySignature, source, async (reader) => {
    if (position === null) {
      const newest = await readNewest(reader, db, id)
      if (newest.position !== null) return 'otherItem'
      return { size: newest.size, timestamp: null, isErased: false, newest }
    }
    const proven = await reader.readEntry(db, id, position)
    const isShown = proven.entry === null || findDifferences(item, proven.entry.item).length === 0
    if (!isShown) return 'otherItem'
    const newest = await readNewest(reader, db, id).catch((error: unknown) => {
      if (error instanceof ProofError && error.code === 'SERVER_FAILED') return null
      throw error
    })
    const [{ size }, { timestamp }] = [proven.checkpoint, proven]
    return { size, timestamp, isErased: proven.entry === null, newest }
  })
}

/** Verifies that the signed state has exactly `count` items of a database, with those of the page among them. */
export async function proveList(
  verifySignature: VerifySignature,
  source: ProofSource,
  { db, ids, count }: ShownList,
): Promise<ListVerdict> {
  return proving(verifySignature, source, async (reader) => {
    const all = new Set(await reader.readIds(db))
    const isShown = all.size === count && ids.every((id) => all.has(id))
    return isShown ? { size: reader.checkpoint?.size ?? 0, count } : 'otherList'
  })
}

/** Reads with a reader that starts with the remembered checkpoint. Returns the proven fact, or why it is not proven. */
async function proving<Fact extends object>(
  verifySignature: VerifySignature,
  source: ProofSource,
  read: (reader: VerifyingReader) => Promise<Fact | RefusalCode>,
): Promise<Proven<Fact>> {
  const { verifierKey, remembered, fetch } = source
  try {
    const key = requireKey(source)
    const checkpoint = toCheckpoint(remembered, key)
    const options = { verifySignature, key, checkpoint, fetch, current: true }
    const reader = new VerifyingReader(options)
    const fact = await read(reader)
    if (typeof fact === 'string') return { refused: fact }
    const { size = 0, root = new Uint8Array() } = reader.checkpoint ?? {}
    const remember = { verifierKey: verifierKey.trim(), size, root: toBase64(root) }
    return { refused: null, isKeyKnown: remembered !== null, remember, ...fact }
  } catch (error) {
    if (error instanceof FaultFound) return { refused: error.fault.code }
    if (error instanceof ProofError) return { refused: REFUSALS[error.code] ?? 'proof' }
    throw error
  }
}

async function readNewest(
  reader: VerifyingReader,
  db: string,
  id: string,
): Promise<NewestRevision> {
  const read = await reader.readItem(db, id)
  const position = read && `${read.height}.${read.index}`
  // This reader has no other request, so the state is its last checkpoint.
  return { position, size: reader.checkpoint?.size ?? 0 }
}
function toCheckpoint(remembered: Remembered | null, key: VerifierKey): Checkpoint | null {
  const root = fromBase64(remembered?.root ?? '')
  if (remembered === null || root === null || remembered.size === 0) return null
  return { origin: key.name, size: remembered.size, root }
}

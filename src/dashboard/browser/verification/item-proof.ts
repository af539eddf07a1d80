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
  /** Position of the entry of the revision: `<height>.<index>`. */
  readonly position: string
  /** The content, or undefined if the revision deleted the item or was erased. */
  readonly item: unknown
}

/** Reasons why a revision is not proven. `Texts.faults` has a sentence for each reason. */
export type RefusalCode = FaultCode | 'proof' | 'otherItem' | 'unanswered'

export type ItemVerdict =
  | { readonly refused: RefusalCode }
  | {
      readonly refused: null
      /** Number of blocks that the checkpoint covers. */
      readonly size: number
      /** Milliseconds since the Unix epoch by the clock of the node, or null if the revision was erased. */
      readonly timestamp: number | null
      readonly isErased: boolean
      /** Whether this browser has verified the node with the same key before. */
      readonly isKeyKnown: boolean
      /** The checkpoint with which the next verification is compared. */
      readonly remember: Remembered
    }

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
 * Verifies that a checkpoint signed with the key of the node covers the shown revision, and that this checkpoint is
 * consistent with the remembered checkpoint. Does not prove that the revision is the newest. Errors: those of
 * `source.fetch`.
 */
export async function proveItem(
  verifySignature: VerifySignature,
  source: ProofSource,
  { db, id, position, item }: ShownItem,
): Promise<ItemVerdict> {
  const { verifierKey, remembered, fetch } = source
  try {
    const key = requireKey(source)
    const checkpoint = toCheckpoint(remembered, key)
    const reader = new VerifyingReader({ verifySignature, key, checkpoint, fetch })
    const proven = await reader.readEntry(db, id, position)
    const isShown = proven.entry === null || findDifferences(item, proven.entry.item).length === 0
    if (!isShown) return { refused: 'otherItem' }
    const { size, root } = reader.checkpoint ?? proven.checkpoint
    return {
      refused: null,
      size: proven.checkpoint.size,
      timestamp: proven.timestamp,
      isErased: proven.entry === null,
      isKeyKnown: remembered !== null,
      remember: { verifierKey: verifierKey.trim(), size, root: toBase64(root) },
    }
  } catch (error) {
    if (error instanceof FaultFound) return { refused: error.fault.code }
    if (error instanceof ProofError) return { refused: REFUSALS[error.code] ?? 'proof' }
    throw error
  }
}

function toCheckpoint(remembered: Remembered | null, key: VerifierKey): Checkpoint | null {
  const root = fromBase64(remembered?.root ?? '')
  if (remembered === null || root === null || remembered.size === 0) return null
  return { origin: key.name, size: remembered.size, root }
}

import { type Checkpoint, nodeCrypto, openCheckpoint, type VerifierKey } from '../../chain/index.ts'

/** A signed head, and the note that says it. */
export interface SignedHead extends Checkpoint {
  readonly note: string
}

/** Most rounds with a peer bring a note that was opened before; checking its signature is their dearest part. */
export const HEADS_KEPT = 64
const heads = new Map<string, SignedHead>()

/** The head that `note` is, signed by `key` for the log that the key is named after. Errors: ProofError. */
export async function openedHead(key: VerifierKey, note: string): Promise<SignedHead> {
  // The name of a key has no space, and its bytes are of one length: no two pairs have one text.
  const asked = `${key.name} ${Buffer.from(key.publicKey).toString('hex')} ${note}`
  const kept = heads.get(asked)
  if (kept !== undefined) return kept
  const head = { ...(await openCheckpoint(nodeCrypto, key, note)), note }
  if (heads.size === HEADS_KEPT) heads.clear()
  heads.set(asked, head)
  return head
}

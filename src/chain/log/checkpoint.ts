import { fromBase64, toBase64 } from '../../base/base64.ts'
import { ProofError } from './errors.ts'
import { HASH_BYTES } from './hashes.ts'
import { type Crypto, openNote, type VerifierKey } from './note.ts'

/** The head of a log: how many leaves it has, and the root hash over them. */
export interface Checkpoint {
  /** Which log: the first line, and the name of the key that signs. */
  readonly origin: string
  readonly size: number
  readonly root: Uint8Array
}

/** The origin of the log of node `serverId`, which is also the name that its key signs under. */
export function logOrigin(serverId: number): string {
  return `daicho/${serverId}`
}

/** What is signed of a checkpoint: origin, size and root, a line each (C2SP tlog-checkpoint). */
export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${toBase64(root)}\n`
}

/**
 * The checkpoint that `text` says. Lines after the third are extensions, which are passed over.
 * Errors: CHECKPOINT_MALFORMED. Source: c2sp.org/tlog-checkpoint.
 */
export function checkpointOf(text: string): Checkpoint {
  const lines = text.split('\n')
  const [origin = '', size = '', encoded = ''] = lines
  const root = fromBase64(encoded)
  const isCheckpoint =
    lines.length >= 4 &&
    lines.pop() === '' &&
    lines.every((line) => line !== '') &&
    /^(0|[1-9]\d{0,15})$/.test(size) &&
    Number.isSafeInteger(Number(size))
  if (isCheckpoint && root?.length === HASH_BYTES) return { origin, size: Number(size), root }
  throw new ProofError('CHECKPOINT_MALFORMED', 'the note is not a checkpoint of a log')
}

/**
 * The checkpoint in `note`, signed by `key` for the log that the key is named after.
 * Errors: NOTE_…, CHECKPOINT_MALFORMED, CHECKPOINT_FOREIGN.
 */
export async function openCheckpoint(
  crypto: Crypto,
  key: VerifierKey,
  note: string,
): Promise<Checkpoint> {
  const checkpoint = checkpointOf(await openNote(crypto, key, note))
  if (checkpoint.origin === key.name) return checkpoint
  throw new ProofError('CHECKPOINT_FOREIGN', `this is a checkpoint of ${checkpoint.origin}`)
}

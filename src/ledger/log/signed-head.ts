import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Checkpoint, checkpointOf, checkpointText, ProofError } from '../../chain/index.ts'
import { fileExists } from '../../storage/index.ts'
import { writeDurably } from '../durable-file.ts'
import { LedgerError } from '../errors.ts'

const FILE = 'signed-head'

/** Where the last head that was signed, or was about to be, is kept. */
export interface SignedHead {
  /** Null when nothing was ever signed. Errors: LOG_HEAD_DAMAGED. */
  read(): Checkpoint | null
  /** When it returns, the head survives a power cut. */
  write(head: Checkpoint): void
}

/**
 * The signed head in a data folder: a file of its own beside the store, so that a store that was put
 * back to an older state, which takes the file along only by mistake, contradicts it. It belongs into
 * no backup. The content is what is signed: origin, size and root, a line each.
 */
export function signedHeadIn(folder: string): SignedHead {
  const path = join(folder, FILE)
  return {
    read() {
      if (!fileExists(path)) return null
      try {
        return checkpointOf(readFileSync(path, 'utf8'))
      } catch (error) {
        if (!(error instanceof ProofError)) throw error
        throw new LedgerError('LOG_HEAD_DAMAGED', `${path} does not hold the head of a log`, {
          cause: error,
        })
      }
    },
    write(head) {
      writeDurably(path, checkpointText(head))
    },
  }
}

/** For a log whose key and store go with the process. */
export function temporaryHead(): SignedHead {
  let kept: Checkpoint | null = null
  return {
    read: () => kept,
    write(head) {
      kept = head
    },
  }
}

import { existsSync, readFileSync } from 'node:fs'
import { nodeSha256, ProofError, type VerifierKey, verifierKeyOf } from '../chain/index.ts'
import { EXIT, Exit } from './exit.ts'

/** What the options of `daicho verify` say. */
export interface VerifyFlags {
  readonly json?: boolean
  /** A verifier key, or a file that holds one. */
  readonly key?: string
  /** Where an audit remembers what it has seen. */
  readonly state?: string
  /** For a node that asks for one. */
  readonly token?: string
}

/** The key that `text` is, or that the file of that name holds. Errors: Exit (usage). */
export function givenKey(text: string): VerifierKey {
  const key = existsSync(text) ? readFileSync(text, 'utf8').trim() : text
  try {
    return verifierKeyOf(nodeSha256, key)
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    throw new Exit(EXIT.usage, '--key is not a verifier key, nor a file that holds one', {
      cause: error,
    })
  }
}

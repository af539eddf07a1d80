import { ProofError, type VerifierKey, verifierKeyOf } from '../../chain/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { textOrFile } from '../text-or-file.ts'

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
  try {
    return verifierKeyOf(textOrFile(text))
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    throw new Exit(EXIT.usage, '--key is not a verifier key, nor a file that holds one', {
      cause: error,
    })
  }
}

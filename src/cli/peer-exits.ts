import { CodedError } from '../base/coded-error.ts'
import { ProofError } from '../chain/index.ts'
import { OutboundError } from '../http/outbound.ts'
import { LedgerError, PeerError } from '../ledger/core.ts'
import { EXIT, Exit } from './exit.ts'

/** What the arguments or the folder have brought about; all else is a finding about the peer. */
const EXITS: Readonly<Record<string, number>> = {
  PEER_INVALID: EXIT.usage,
  RESTORE_OVER_STORE: EXIT.configuration,
  RESTORE_WITHOUT_KEY: EXIT.configuration,
  FOLDER_KEY_MISSING: EXIT.configuration,
}

/** Runs `work`; what it refuses, or a peer answers or does not, ends the program with one line. */
export async function exitingWithPeers<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const isOfPeer = [PeerError, OutboundError, ProofError, LedgerError].some(
      (kind) => error instanceof kind,
    )
    if (!isOfPeer || !(error instanceof CodedError)) throw error
    throw new Exit(EXITS[String(error.code)] ?? EXIT.finding, error.message, { cause: error })
  }
}

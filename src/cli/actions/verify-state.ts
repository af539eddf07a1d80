import { isoTime } from '../../base/iso-time.ts'
import {
  equalBytes,
  nodeVerifySignature,
  ProofError,
  positionText,
  type SignedState,
  verifyStateProof,
} from '../../chain/index.ts'
import { formatFields, print } from '../output/output.ts'
import {
  printDifference,
  readProofFile,
  requireChainState,
  requireGivenKey,
  type VerifyFlags,
} from './audit.ts'

/** Verifies the state proof at `path`, and prints what it proves. Errors: Exit (usage). */
export async function verifyState(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireGivenKey(flags)
  try {
    const proven = await verifyStateProof(nodeVerifySignature, key, readProofFile(path))
    const { db, id, kind, state, revision } = proven
    if (flags.chain !== undefined) await requireState(state, flags)
    const position = revision === null ? null : positionText(revision.position)
    const attachments = Object.fromEntries(
      [...(revision?.attachments ?? [])].map(([name, at]) => [name, positionText(at)]),
    )
    const about = {
      current: 'The proof is valid: this is the newest revision of the item.',
      absent: 'The proof is valid: the database has no such item.',
      'absent-database': 'The proof is valid: there is no such database.',
    }[kind]
    const fields = formatFields({
      ...{ log: key.name, state: `after ${state.size} blocks`, database: db, item: id, position },
      time: revision === null ? null : isoTime(revision.timestamp),
      entry: revision === null ? null : JSON.stringify(revision.entry),
      attachment: Object.entries(attachments).map(([name, at]) => `${name}, ${at}`),
    })
    const json = {
      ...{ status: true, kind, db, id, size: state.size, position },
      root: Buffer.from(state.root).toString('hex'),
      ...{ timestamp: revision?.timestamp ?? null, entry: revision?.entry ?? null, attachments },
    }
    print(flags.json, json, `${about}\n${fields}`)
  } catch (error) {
    printDifference(error, flags)
  }
}

/** Throws PROOF_WRONG unless `state` is the state of the chain in `--chain`. Errors: as for `requireChainState`. */
async function requireState({ size, root, log }: SignedState, flags: VerifyFlags): Promise<void> {
  const recomputed = await requireChainState(flags, size)
  if (recomputed.size !== size || !equalBytes(recomputed.log, log)) {
    const what = `the first ${size} blocks of the chain are not those of the signed state`
    throw new ProofError('PROOF_WRONG', what)
  }
  if (equalBytes(recomputed.root, root)) return
  throw new ProofError(
    'PROOF_WRONG',
    `the signed state is not the state of the first ${size} blocks`,
  )
}

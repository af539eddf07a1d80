import { createReadStream } from 'node:fs'
import { isoTime } from '../../base/iso-time.ts'
import {
  equalBytes,
  nodeVerifySignature,
  ProofError,
  positionText,
  type SignedState,
  verifyStateList,
  verifyStateProof,
} from '../../chain/index.ts'
import { count, formatFields, print } from '../output/output.ts'
import {
  printDifference,
  readProofFile,
  requireChainState,
  requireGivenKey,
  type VerifyFlags,
} from './audit.ts'

/** Verifies the state proof at `path`, and prints the proven state. Errors: Exit (usage). */
export async function verifyState(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireGivenKey(flags)
  try {
    const proven = await verifyStateProof(nodeVerifySignature, key, readProofFile(path))
    const { db, id, kind, state, revision } = proven
    if (flags.chain !== undefined) await requireState(state, flags)
    const position = revision === null ? null : positionText(revision.position)
    const newest = revision?.attachments ?? null
    const attachments = newest === null ? null : positionText(newest)
    const about = {
      current: 'The proof is valid: this is the newest revision of the item.',
      absent: 'The proof is valid: the database has no such item.',
      'absent-database': 'The proof is valid: there is no such database.',
    }[kind]
    const fields = formatFields({
      ...{ log: key.name, state: `after ${state.size} blocks`, database: db, item: id, position },
      time: revision === null ? null : isoTime(revision.timestamp),
      entry: revision === null ? null : JSON.stringify(revision.entry),
      attachments: attachments === null ? null : `changed at ${attachments}`,
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

/** Verifies the list of a database at `path`, and prints how many items it has. Errors: Exit (usage). */
export async function verifyList(path: string, flags: VerifyFlags): Promise<void> {
  const key = requireGivenKey(flags)
  try {
    const { db, state, items } = await verifyStateList(nodeVerifySignature, key, readLines(path))
    if (flags.chain !== undefined) await requireState(state, flags)
    const about =
      items === null
        ? 'The list is valid: there is no such database.'
        : `The list is valid: these are all items of the database, ${count(items.length, 'item')}.`
    const fields = formatFields({
      ...{ log: key.name, state: `after ${state.size} blocks`, database: db },
    })
    const json = {
      ...{ status: true, kind: items === null ? 'absent-database' : 'complete', db },
      ...{ size: state.size, root: Buffer.from(state.root).toString('hex') },
      items: items?.length ?? null,
    }
    print(flags.json, json, `${about}\n${fields}`)
  } catch (error) {
    printDifference(error, flags)
  }
}

/** Yields the text of a file between line feeds, also the empty text after the last one. Errors: PROOF_MALFORMED. */
async function* readLines(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(path, { encoding: 'utf8' })) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_LENGTH_MAX) {
      throw new ProofError('PROOF_MALFORMED', 'a line of the list is too long')
    }
    yield* lines
  }
  yield rest
}

/** Maximum characters of a line of a list: an id, and the attachments of the item. */
const LINE_LENGTH_MAX = 32 * 1024 * 1024

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

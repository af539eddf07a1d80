import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import {
  nodeVerifySignature,
  ProofError,
  type ProvenEntry,
  verifyProofFile,
} from '../../chain/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { givenKey, type VerifyFlags } from './verify-flags.ts'

/** What proof files begin with, whatever their version. */
const BEGINNING = 'c2sp.org/tlog-proof'

/** Whether a proof file is at `path`. */
export function isProofFile(path: string): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return false
  const file = openSync(path, 'r')
  const beginning = Buffer.alloc(BEGINNING.length)
  readSync(file, beginning)
  closeSync(file)
  return beginning.toString('latin1') === BEGINNING
}

/** Verifies the proof file at `path` and prints what it shows. Errors: Exit (usage). */
export async function verifyProof(path: string, { key, json }: VerifyFlags): Promise<void> {
  if (key === undefined) {
    throw new Exit(
      EXIT.usage,
      'a proof file is verified with --key: the verifier key of its node, which you know from elsewhere',
    )
  }
  const result = await provenIn(readFileSync(path, 'utf8'), key)
  process.stdout.write(`${json === true ? JSON.stringify(result) : inWords(result)}\n`)
  process.exitCode = result.status ? EXIT.right : EXIT.finding
}

type ProofResult =
  | ({ readonly status: true; readonly erased: boolean } & Omit<ProvenEntry, 'checkpoint'> & {
        readonly size: number
        readonly root: string
      })
  | { readonly status: false; readonly code: string; readonly what: string }

async function provenIn(file: string, key: string): Promise<ProofResult> {
  try {
    const { checkpoint, ...proven } = await verifyProofFile(
      nodeVerifySignature,
      givenKey(key),
      file,
    )
    const { size, root } = checkpoint
    const hex = Buffer.from(root).toString('hex')
    return { status: true, erased: proven.entry === null, ...proven, size, root: hex }
  } catch (error) {
    if (!(error instanceof ProofError)) throw error
    return { status: false, code: error.code, what: error.message }
  }
}

function inWords(result: ProofResult): string {
  if (!result.status) return `DIFFERENCE ${result.what}`
  const { serverId, height, index, entry, timestamp, size } = result
  const where = [`server id  ${serverId}`, `position   ${height}.${index}, in a log of ${size}`]
  if (entry === null)
    return ['The entry was erased, its commitment is intact.', ...where].join('\n')
  return [
    'The proof holds.',
    ...where,
    `time       ${new Date(timestamp ?? 0).toISOString()}`,
    `entry      ${JSON.stringify(entry)}`,
  ].join('\n')
}

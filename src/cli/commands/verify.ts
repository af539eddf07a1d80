import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { EVIDENCE_LENGTH_MAX, isEvidence } from '../../chain/index.ts'
import type { NodeVerification } from '../../ledger/core.ts'
import { isDatabaseUrl, type StoreLocation } from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { textOrFile } from '../node/node-client.ts'
import { findSigning, KEY_FILE } from '../node/node-folder.ts'
import {
  count,
  formatFields,
  type ProgressLine,
  paceText,
  print,
  withProgress,
} from '../output/output.ts'
import type { VerifyFlags } from './audit.ts'
import type { ExportVerification } from './export.ts'

export function verifyCommand(): Command {
  return new Command('verify')
    .description(
      'verify a data folder, an export, a proof file, evidence or the log of a running node',
    )
    .argument(
      '<what>',
      'a data folder (its node may be running), the postgres:// URL of a database, an export (- for stdin), ' +
        'a .tlog-proof file, an evidence.json, or the URL of a node',
    )
    .option(
      '--key <vkey>',
      'verifier key of the node (from /api/ledgers/<serverid>/vkey), or a file that contains it',
    )
    .option(
      '--state <file>',
      'for a URL: file for the state of the last audit (default: a file in ~/.daicho)',
    )
    .option(
      '--token <token>',
      'for a URL: token if the node requires one, or a file that contains it',
      textOrFile,
    )
    .option(
      '--erasure <file>',
      'for a proof file of an erased entry: the proof file of the entry that erased the content',
    )
    .option(
      '--witness <vkey>',
      'for a proof file or a URL: key of a witness that must have cosigned; repeatable',
      (vkey, others: readonly string[] = []) => [...others, textOrFile(vkey)],
    )
    .option('--quorum <number>', 'number of witnesses that must have cosigned (default: all)')
    .option(
      '--policy <file>',
      'for a proof file or a URL: a C2SP tlog-policy with logs and witnesses',
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: everything is valid, or the evidence proves two histories. 1: a difference was found and printed.\n2: nothing to verify.',
    )
    .action(verify)
}

// Loads only the modules for this kind of input, because compiling all modules takes longer than verifying a folder.
async function verify(target: string, flags: VerifyFlags): Promise<void> {
  if (/^https?:\/\//.test(target)) {
    refuseFlags(flags, 'a URL', [...WITNESS_FLAGS, 'key', 'state', 'token'])
    return (await import('./audit.ts')).auditUrl(target, flags)
  }
  if (isProofFile(target)) {
    refuseFlags(flags, 'a proof file', [...WITNESS_FLAGS, 'key', 'erasure'])
    return (await import('./audit.ts')).verifyProof(target, flags)
  }
  if (isEvidenceFile(target)) {
    refuseFlags(flags, 'evidence', ['key'])
    return (await import('./audit.ts')).verifyEvidenceFile(target, flags)
  }
  refuseFlags(flags, 'a folder or an export', [])
  return verifyChain(target, flags)
}

const WITNESS_FLAGS = ['witness', 'quorum', 'policy']

/** Throws Exit (usage) for a flag other than `json` and `allowed`, because users would expect an effect of the flag. */
function refuseFlags({ json, ...flags }: VerifyFlags, kind: string, allowed: readonly string[]) {
  for (const [flag, value] of Object.entries(flags)) {
    if (value === undefined || allowed.includes(flag)) continue
    throw new Exit(EXIT.usage, `--${flag} does not apply to ${kind}`)
  }
}

/** The first bytes of every proof file, independent of its version. */
const PROOF_BEGINNING = 'c2sp.org/tlog-proof'

function isProofFile(path: string): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return false
  const file = openSync(path, 'r')
  const beginning = Buffer.alloc(PROOF_BEGINNING.length)
  readSync(file, beginning)
  closeSync(file)
  return beginning.toString('latin1') === PROOF_BEGINNING
}

function isEvidenceFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile() !== true || stats.size > EVIDENCE_LENGTH_MAX) return false
  return isEvidence(readFileSync(path, 'utf8'))
}

async function verifyChain(path: string, { json }: VerifyFlags): Promise<void> {
  const isDatabase = isDatabaseUrl(path)
  if (!isDatabase && path !== '-' && !existsSync(path)) {
    throw new Exit(EXIT.usage, `there is no folder or file ${path}`)
  }
  const isStore = isDatabase || (path !== '-' && statSync(path).isDirectory())
  const { result, seconds } = await withProgress('verifying', async (line) =>
    isStore ? verifyAt(path, line) : (await import('./export.ts')).verifyExport(path, line),
  )
  const status = result.finding === null
  print(json, { status, ...result }, verificationText(result, seconds))
  process.exitCode = status ? EXIT.success : EXIT.finding
}

const NO_BLOBS = { contents: 0, contentBytes: 0, absent: 0 } as const

async function verifyAt(location: StoreLocation, line: ProgressLine): Promise<NodeVerification> {
  const { folder, signing } = await findSigning(location)
  const { verifyNode } = await import('../../ledger/core.ts')
  return verifyNode(location, {
    signing,
    isMirror: folder === location && (await isMirror(location)),
    // One thread per processor, because this thread is nearly idle unless another thread finds a difference.
    threads: { location, count: availableParallelism() },
    progress: line.showEntries,
    blobProgress: (share, done) => line.update(share, count(done.contents, 'attached blob')),
  })
}

/** Whether `folder` is a mirror. A folder with the key of a node is no mirror, even if it has files of a mirror. */
async function isMirror(folder: string): Promise<boolean> {
  if (existsSync(join(folder, KEY_FILE))) return false
  return (await import('../../ledger/core.ts')).isMirrorFolder(folder)
}

function verificationText(
  verification: NodeVerification | ExportVerification,
  seconds: number,
): string {
  const { serverId, blocks, entries, erased, databases, items, headId, finding } = verification
  const counted = `${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}`
  if (finding !== null) {
    const position = [
      ...('line' in finding ? [`line ${finding.line}`] : []),
      ...(finding.height === null ? [] : [`height ${finding.height}`]),
      ...(finding.index === null ? [] : [`entry ${finding.index}`]),
    ].join(', ')
    const where = position === '' ? '' : `at ${position}: `
    return `DIFFERENCE ${where}${finding.what}\n(${counted} before the difference are valid)`
  }
  const { contents, contentBytes, absent } = 'contents' in verification ? verification : NO_BLOBS
  const fields = {
    'server id': serverId,
    head: headId ?? '(none)',
    attached:
      contents === 0 ? null : `${count(contents, 'blob')} of ${count(contentBytes, 'byte')}`,
    absent:
      absent === 0
        ? null
        : `${count(absent, 'blob')}: the running node fetches the blobs that the source of this mirror still has`,
    time: paceText(entries, seconds),
  }
  return [
    `Everything is valid: ${counted}, ${count(databases, 'database')} with ${count(items, 'item')}.`,
    ...(erased > 0 ? [`Erased, commitment intact: ${count(erased, 'entry', 'entries')}.`] : []),
    formatFields(fields),
  ].join('\n')
}

import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { EVIDENCE_LENGTH_MAX, isEvidence } from '../../chain/index.ts'
import type { NodeVerification } from '../../ledger/core.ts'
import { isDatabaseUrl, type StoreLocation } from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { findSigning, KEY_FILE, missingSource } from '../node/node-folder.ts'
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

// Loads only the modules for this kind of input, because compiling all modules takes longer than verifying a folder.
export async function runVerify(target: string, flags: VerifyFlags): Promise<void> {
  if (/^https?:\/\//.test(target)) {
    refuseFlags(flags, 'a URL', [...WITNESS_FLAGS, 'key', 'state', 'token'])
    return (await import('./audit.ts')).auditUrl(target, flags)
  }
  if (hasBeginning(target, STATE_PROOF_BEGINNING)) {
    refuseFlags(flags, 'a state proof', ['key', 'chain'])
    return (await import('./verify-state.ts')).verifyState(target, flags)
  }
  if (hasBeginning(target, STATE_LIST_BEGINNING)) {
    refuseFlags(flags, 'a list of a state', ['key', 'chain'])
    return (await import('./verify-state.ts')).verifyList(target, flags)
  }
  if (hasBeginning(target, PROOF_BEGINNING)) {
    refuseFlags(flags, 'a proof file', [...WITNESS_FLAGS, 'key', 'erasure'])
    return (await import('./audit.ts')).verifyProof(target, flags)
  }
  if (isEvidenceFile(target)) {
    refuseFlags(flags, 'evidence', ['key', 'chain'])
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
const STATE_PROOF_BEGINNING = 'daicho/state-proof'
const STATE_LIST_BEGINNING = 'daicho/state-list'

function hasBeginning(path: string, expected: string): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return false
  const file = openSync(path, 'r')
  const beginning = Buffer.alloc(expected.length)
  readSync(file, beginning)
  closeSync(file)
  return beginning.toString('latin1') === expected
}

function isEvidenceFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile() !== true || stats.size > EVIDENCE_LENGTH_MAX) return false
  return isEvidence(readFileSync(path, 'utf8'))
}

async function verifyChain(path: string, { json }: VerifyFlags): Promise<void> {
  const isDatabase = isDatabaseUrl(path)
  if (!isDatabase && path !== '-' && !existsSync(path)) {
    throw missingSource('folder or file', path)
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

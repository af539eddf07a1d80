import { existsSync, readFileSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import {
  type BlobVerification,
  type Finding,
  fileExists,
  openStoreReader,
  requireStoreFile,
  StoreError,
  type StoreReader,
  storePathIn,
  type Verification,
  verifyBlobs,
  verifyStore,
} from '../../storage/index.ts'
import { count } from '../count.ts'
import { KEY_FILE, SIGNED_HEAD_FILE } from '../data-files.ts'
import { EXIT, Exit, exitOfSystem } from '../exit.ts'
import { ProgressLine, shareOf } from '../progress.ts'
import { textOrFile } from '../text-or-file.ts'
import type { ExportVerification } from './verify-export.ts'
import type { VerifyFlags } from './verify-flags.ts'

/** `daicho verify`. */
export function verifyCommand(): Command {
  return new Command('verify')
    .argument(
      '<what>',
      'a data folder (its node may be running), an export (- for stdin), a .tlog-proof file, or a URL',
    )
    .option('--key <vkey>', 'verifier key of the node, or a file that holds it; from .../vkey')
    .option('--state <file>', 'of a URL: what was seen last time (default: in the home folder)')
    .option(
      '--token <token>',
      'of a URL: where the node asks for one; or a file that holds it',
      textOrFile,
    )
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      '\nExit code 0: everything holds. 1: a difference was found; it is named. 2: nothing to verify.',
    )
    .action(verify)
}

// What each kind of thing needs is loaded for it only: a folder is verified sooner than all is compiled.
async function verify(what: string, flags: VerifyFlags): Promise<void> {
  if (/^https?:\/\//.test(what)) return (await import('./audit.ts')).auditUrl(what, flags)
  const { isProofFile, verifyProof } = await import('./verify-proof.ts')
  if (isProofFile(what)) return verifyProof(what, flags)
  return verifyChain(what, flags)
}

async function verifyChain(path: string, flags: VerifyFlags): Promise<void> {
  const { key, state, token } = flags
  for (const [flag, value] of Object.entries({ key, state, token })) {
    if (value === undefined) continue
    // Somebody would believe that it was compared.
    throw new Exit(EXIT.usage, `--${flag} is of no use for a folder or an export`)
  }
  if (path !== '-' && !existsSync(path)) {
    throw new Exit(EXIT.usage, `there is no folder ${path}, and no file`)
  }
  const startedMs = systemClock.now()
  const line = new ProgressLine('verifying', process.stderr)
  const isFolder = path !== '-' && statSync(path).isDirectory()
  const verification = isFolder
    ? await verifyFolder(path, line)
    : await (await import('./verify-export.ts')).verifyExport(path, line)
  line.end()
  const seconds = (systemClock.now() - startedMs) / 1000
  if (flags.json === true) {
    process.stdout.write(
      `${JSON.stringify({ status: verification.finding === null, ...verification })}\n`,
    )
  } else {
    process.stdout.write(`${inWords(verification, seconds)}\n`)
  }
  process.exitCode = verification.finding === null ? EXIT.right : EXIT.finding
}

const NO_CONTENTS = { contents: 0, contentBytes: 0, absent: 0 } as const

type FolderVerification = Verification & BlobVerification

async function verifyFolder(folder: string, line: ProgressLine): Promise<FolderVerification> {
  try {
    requireStoreFile(storePathIn(folder))
    // Before the view is taken: a node that goes on may sign more meanwhile.
    const signed = signedHeadIn(folder)
    // One view of the store from first to last, also while a node goes on writing.
    const store = openStoreReader(folder, { frozen: true })
    try {
      const verification = await verifyStore(store, {
        progress: (done) =>
          line.update(shareOf(done), `${done.entries} entries`, systemClock.now()),
        // This thread has little to do where they find all in order.
        threads: { folder, count: availableParallelism() },
      })
      const finding = verification.finding ?? (await findingOfHead(store, signed))
      if (finding !== null) return { ...verification, finding, ...NO_CONTENTS }
      const contents = await verifyBlobs(store, folder, {
        isMirror: await isMirror(folder),
        progress: (share, done) =>
          line.update(share, `${count(done.contents, 'attached content')}`, systemClock.now()),
      })
      return { ...verification, ...contents }
    } finally {
      await store.close()
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    if (error.code === 'STORE_NOT_FOUND') throw new Exit(EXIT.usage, error.message)
    if (/^(STORE_TOO|FOLDER)_/.test(error.code)) {
      throw new Exit(EXIT.configuration, error.message)
    }
    const counts = { blocks: 0, entries: 0, erased: 0, databases: 0, items: 0 }
    return {
      serverId: 0,
      ...counts,
      ...NO_CONTENTS,
      headId: null,
      finding: { height: null, index: null, what: error.message },
    }
  }
}

/** The head that was signed last, or null where none is kept. Errors: Exit (configuration). */
function signedHeadIn(folder: string): string | null {
  const path = join(folder, SIGNED_HEAD_FILE)
  try {
    return fileExists(path) ? readFileSync(path, 'utf8') : null
  } catch (error) {
    throw exitOfSystem(error, EXIT.configuration) ?? error
  }
}

/** What a chain that holds has otherwise than it was signed: a whole other one may hold, too. */
async function findingOfHead(store: StoreReader, signed: string | null): Promise<Finding | null> {
  if (signed === null) return null
  const what = await (await import('../../ledger/core.ts')).contradictionOf(store, signed)
  return what === null ? null : { height: null, index: null, what }
}

/** A node's own folder has its key in it: nothing that is put there beside it makes a mirror of it. */
async function isMirror(folder: string): Promise<boolean> {
  if (existsSync(join(folder, KEY_FILE))) return false
  return (await import('../../ledger/core.ts')).isMirrorFolder(folder)
}

function inWords(verification: FolderVerification | ExportVerification, seconds: number): string {
  const { serverId, blocks, entries, erased, databases, items, headId, finding } = verification
  const counted = `${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}`
  if (finding === null) {
    return [
      `Everything holds: ${counted}; ${count(databases, 'database')} with ${count(items, 'item')} ` +
        `${databases === 1 ? 'follows' : 'follow'} from them.`,
      ...(erased === 0 ? [] : [`Erased, commitment intact: ${count(erased, 'entry', 'entries')}.`]),
      `server id  ${serverId}`,
      `head       ${headId ?? '(none)'}`,
      ...('contents' in verification && verification.contents > 0
        ? [`attached   ${attached(verification)}`]
        : []),
      ...('absent' in verification && verification.absent > 0
        ? [
            `absent     ${count(verification.absent, 'content')}, not here or not any more: ` +
              'the node of this mirror fetches what the source has',
          ]
        : []),
      `time       ${seconds.toFixed(1)} s, ${Math.round(entries / Math.max(seconds, 0.001))} entries/s`,
    ].join('\n')
  }
  const place = [
    'line' in finding ? `line ${finding.line}` : '',
    finding.height === null ? '' : `height ${finding.height}`,
    finding.index === null ? '' : `entry ${finding.index}`,
  ].filter((part) => part !== '')
  const where = place.length === 0 ? '' : `at ${place.join(', ')}: `
  return `DIFFERENCE ${where}${finding.what}\n(${counted} hold before it)`
}

function attached({ contents, contentBytes }: BlobVerification): string {
  return `${count(contents, 'content')} of ${count(contentBytes, 'byte')}`
}

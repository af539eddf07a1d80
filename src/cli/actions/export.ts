import assert from 'node:assert/strict'
import { createReadStream, existsSync, statSync } from 'node:fs'
import { findErased, type SignedState } from '../../chain/index.ts'
import {
  type ExportEnd,
  ExportError,
  type ExportFinding,
  exportLines,
  readExport,
  StateRecomputation,
  signedHeadFinding,
} from '../../ledger/core.ts'
import {
  ChainWalk,
  type Effect,
  isDatabaseUrl,
  openStoreReader,
  type Verification,
} from '../../storage/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { findSigning, missingSource, onStore, requireSourceFolder } from '../node/node-folder.ts'
import {
  count,
  formatFields,
  type ProgressLine,
  print,
  requireOwnOutput,
  withProgress,
} from '../output/output.ts'
import { requireFileName, writeTexts } from '../output/output-file.ts'

interface ExportFlags {
  readonly out: string
  readonly json?: boolean
}

export async function runExport(from: string, { out, json }: ExportFlags): Promise<void> {
  if (!isDatabaseUrl(from)) requireSourceFolder(from)
  requireOwnOutput(out, json)
  requireFileName(out)
  const { result, seconds } = await withProgress('exporting', (line) =>
    onStore(() => exportFrom(from, out, line)),
  )
  const { blocks, entries, headId } = result
  const done = `Exported: ${count(blocks, 'block')}, ${count(entries, 'entry', 'entries')}.`
  const fields = { head: headId ?? '(none)', time: `${seconds.toFixed(1)} s` }
  const text = `${done}\n${formatFields(fields)}`
  // Printed to stderr, because stdout must contain only the export.
  if (out === '-') process.stderr.write(`${text}\n`)
  else print(json, { status: true, out, blocks, entries, headId }, text)
}

async function exportFrom(from: string, out: string, line: ProgressLine): Promise<ExportEnd> {
  const { folder, signing } = await findSigning(from)
  const store = await openStoreReader(from, { frozen: false })
  try {
    const finding = signing === null ? null : await signedHeadFinding(store, signing)
    if (finding !== null) throw new Exit(EXIT.finding, finding)
    return await writeTexts(exportLines(store, folder, line.showEntries), out)
  } finally {
    await store.close()
  }
}

const CHUNK_BYTES = 1024 * 1024

/** Reads the file at `path`, or stdin for `-`. Errors: Exit (usage) if the file does not exist. */
export function readBytes(path: string): AsyncIterable<Uint8Array> {
  if (path === '-') return process.stdin
  if (existsSync(path) && !statSync(path).isDirectory()) {
    return createReadStream(path, { highWaterMark: CHUNK_BYTES })
  }
  throw missingSource('file', path)
}

/** Runs `work`, which reads the export at `path`. Errors: those of `work`; Exit (usage) if there is no export. */
export async function onExport<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await onStore(work)
  } catch (error) {
    if (!(error instanceof ExportError) || error.code !== 'EXPORT_FOREIGN') throw error
    throw new Exit(EXIT.usage, `there is no export in ${path}: ${error.message}`, { cause: error })
  }
}

/**
 * Verifies the chain at `path`, a folder, a database or an export, and returns the state of its first `size` blocks.
 * Errors: Exit (finding) if the chain is damaged; ExportError.
 */
export async function recomputeChain(path: string, size: number): Promise<SignedState> {
  if (!isDatabaseUrl(path) && !(existsSync(path) && statSync(path).isDirectory())) {
    return recomputeExport(path, size)
  }
  const store = await openStoreReader(path, { frozen: false })
  const recomputation = new StateRecomputation(store.serverId, size)
  try {
    const walk = await ChainWalk.from(store, 0)
    for (;;) {
      const { blocks, finding } = await walk.next(size)
      if (finding !== null) throw new Exit(EXIT.finding, `the chain is damaged: ${finding.what}`)
      if (blocks.length === 0) return recomputation.end()
      for (const block of blocks) recomputation.push(block)
    }
  } finally {
    recomputation.close()
    await store.close()
  }
}

async function recomputeExport(path: string, size: number): Promise<SignedState> {
  const opened: StateRecomputation[] = []
  try {
    await onExport(path, () =>
      readExport(readBytes(path), {
        async header({ serverId }) {
          opened.push(new StateRecomputation(serverId, size))
        },
        async blocks(blocks) {
          for (const { block } of blocks) opened[0]?.push(block)
        },
      }),
    )
    const [recomputation] = opened
    assert(recomputation !== undefined, 'readExport passes the header first')
    return recomputation.end()
  } finally {
    for (const recomputation of opened) recomputation.close()
  }
}

export interface ExportVerification extends Omit<Verification, 'finding'> {
  readonly finding: ExportFinding | null
}

/**
 * Verifies the export at `path` (`-` for stdin). Does not check whether each change was possible, for example whether a
 * deleted item existed, because this needs a store; `daicho import` checks it. Errors: Exit, ExportError.
 */
export async function verifyExport(path: string, line: ProgressLine): Promise<ExportVerification> {
  const databases = new Map<string, number>()
  let seen = { serverId: 0, blocks: 0, entries: 0, erased: 0, headId: null as string | null }
  let size = 0
  let finding: ExportFinding | null = null
  try {
    await onExport(path, () =>
      readExport(readBytes(path), {
        async header({ serverId, size: ofBlocks }) {
          seen = { ...seen, serverId }
          size = ofBlocks
        },
        async blocks(blocks, entries) {
          for (const { block, effects } of blocks) {
            for (const effect of effects) countEffect(databases, effect)
            const erased = seen.erased + findErased(block).size
            seen = { ...seen, blocks: block.height + 1, erased, headId: block.id }
          }
          seen = { ...seen, entries }
          line.showEntries({ blocks: seen.blocks, ofBlocks: size, entries })
        },
      }),
    )
  } catch (error) {
    if (!(error instanceof ExportError) || error.finding === null) throw error
    finding = error.finding
  }
  let items = 0
  for (const inDatabase of databases.values()) items += inDatabase
  return { ...seen, databases: databases.size, items, finding }
}

function countEffect(databases: Map<string, number>, { kind, db }: Effect): void {
  if (kind === 'create_db') databases.set(db, 0)
  if (kind === 'delete_db') databases.delete(db)
  if (kind === 'create_item') databases.set(db, (databases.get(db) ?? 0) + 1)
  if (kind === 'delete_item') databases.set(db, (databases.get(db) ?? 0) - 1)
}

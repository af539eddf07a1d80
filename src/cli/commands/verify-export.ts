import { systemClock } from '../../base/clock.ts'
import { erasedIn } from '../../chain/index.ts'
import { ExportError, type ExportFinding, readExport } from '../../ledger/core.ts'
import type { Effect, Verification } from '../../storage/index.ts'
import { bytesOfFile, runOnExport } from '../data-command.ts'
import { Exit } from '../exit.ts'
import { type ProgressLine, shareOf } from '../progress.ts'

/** What a verification of an export looked at, and what it found. */
export interface ExportVerification extends Omit<Verification, 'finding'> {
  readonly finding: ExportFinding | null
}

const NOTHING = { serverId: 0, blocks: 0, entries: 0, erased: 0, headId: null }

/**
 * Verifies the export in the file at `path`, `-` for stdin. Whether each change fits the databases is
 * seen by an import only: that needs a store. Errors: Exit.
 */
export async function verifyExport(path: string, line: ProgressLine): Promise<ExportVerification> {
  const databases = new Map<string, number>()
  let seen: Omit<Verification, 'databases' | 'items' | 'finding'> = NOTHING
  let size = 0
  const result = (finding: ExportFinding | null) => {
    let items = 0
    for (const inDatabase of databases.values()) items += inDatabase
    return { ...seen, databases: databases.size, items, finding }
  }
  try {
    await runOnExport(path, () =>
      readExport(bytesOfFile(path), {
        async header({ serverId, size: ofBlocks }) {
          seen = { ...seen, serverId }
          size = ofBlocks
        },
        async blocks(blocks, entries) {
          for (const { block, effects } of blocks) {
            for (const effect of effects) countEffect(databases, effect)
            const erased = seen.erased + erasedIn(block).size
            seen = { ...seen, blocks: block.height + 1, erased, headId: block.id }
          }
          seen = { ...seen, entries }
          const share = shareOf({ blocks: seen.blocks, ofBlocks: size })
          line.update(share, `${entries} entries`, systemClock.now())
        },
      }),
    )
    return result(null)
  } catch (error) {
    const cause = error instanceof Exit ? error.cause : null
    if (!(cause instanceof ExportError) || cause.finding === null) throw error
    return result(cause.finding)
  }
}

function countEffect(databases: Map<string, number>, { kind, db }: Effect): void {
  if (kind === 'create_db') databases.set(db, 0)
  if (kind === 'delete_db') databases.delete(db)
  if (kind === 'create_item') databases.set(db, (databases.get(db) ?? 0) + 1)
  if (kind === 'delete_item') databases.set(db, (databases.get(db) ?? 0) - 1)
}

import { existsSync } from 'node:fs'
import type { Clock } from '../base/clock.ts'
import { type Folder, holdFolder, openStoreReader } from '../storage/index.ts'
import { nodeKeyIn, temporaryNodeKey } from './node-key.ts'
import { LedgerService } from './service.ts'
import { LedgerWriter } from './writer/writer.ts'

/** How a node's ledger is opened. */
export interface OpenLedgerOptions {
  /** The data folder; null keeps everything in a temporary one that goes with the process. */
  readonly folder: string | null
  /** Leading zeros that block ids shall have, 0..4. */
  readonly difficulty: number
  readonly clock: Clock
}

/** An open ledger: this process alone holds its folder. */
export interface OpenLedger {
  readonly service: LedgerService
  /** Writes what waits, then lets go of the folder. */
  close(): Promise<void>
}

/**
 * Opens the ledger of one node, making key and store on first use.
 * Errors: StoreError (folder in use, unusable, too new, damaged), LedgerError (key missing).
 */
export async function openLedger(options: OpenLedgerOptions): Promise<OpenLedger> {
  const folder = holdFolder(options.folder)
  try {
    return await openIn(folder, options)
  } catch (error) {
    folder.release()
    throw error
  }
}

async function openIn(
  folder: Folder,
  { difficulty, clock }: OpenLedgerOptions,
): Promise<OpenLedger> {
  const { serverId } = folder.lasting
    ? nodeKeyIn(folder.path, !existsSync(folder.storePath))
    : temporaryNodeKey()
  const writer = await LedgerWriter.start(
    { folder: folder.path, serverId, durable: folder.lasting, difficulty },
    clock,
  )
  const reader = openStoreReader(folder.path, { frozen: false })
  writer.onCommit = () => reader.refresh()
  return {
    service: new LedgerService(reader, writer, clock),
    async close() {
      // The writer last: who closes last folds the engine's log into the file.
      await reader.close()
      await writer.close()
      folder.release()
    },
  }
}

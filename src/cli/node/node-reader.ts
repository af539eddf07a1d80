import { CodedError } from '../../base/coded-error.ts'
import { LedgerReader, signedHeadFinding } from '../../ledger/core.ts'
import { openStoreReader } from '../../storage/index.ts'
import { readSettings } from '../composition/settings.ts'
import { Exit } from '../exit.ts'
import { warn } from '../output/output.ts'
import { chooseStore, type FolderFlags, nodeFolder, requireSigningFiles } from './node-folder.ts'

/**
 * Opens the store of the node in SYSTEM_FOLDER in its state now; the node may be running. Only warns if the store is older
 * than the signed head or contradicts it, because a rescue may need the data. Errors: Exit (configuration), StoreError.
 */
export async function openNodeReader(flags: FolderFlags): Promise<LedgerReader> {
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  const location = chooseStore(settings, folder, flags)
  const signing = await requireSigningFiles(folder).catch(toReason)
  const store = await openStoreReader(location, { frozen: true })
  const finding =
    typeof signing === 'string' ? signing : await signedHeadFinding(store, signing).catch(toReason)
  if (finding !== null) warn(finding)
  return new LedgerReader(location, store)
}

function toReason(error: unknown): string {
  if (error instanceof Exit || error instanceof CodedError) return error.message
  throw error
}

import { systemClock } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { type OpenLedger, openLedger } from '../../ledger/core.ts'
import type { Settings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { chooseStore, type FolderFlags, findSettingName } from './node-folder.ts'

/**
 * Opens the ledger of a stopped node, so that this process can change the data. Errors: Exit (configuration), with a
 * hint to use --url if the node is running.
 */
export async function openStoppedNode(
  settings: Settings,
  folder: string,
  flags: FolderFlags,
): Promise<OpenLedger> {
  const store = chooseStore(settings, folder, flags)
  try {
    const authorRequired = settings.TOKENS === 'required'
    return await openLedger({
      ...{ folder, store, clock: systemClock, authorRequired, followsState: false },
    })
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    const message =
      error.code === 'FOLDER_IN_USE'
        ? `a node is running in ${folder}: give its address with --url`
        : `${findSettingName(settings, error)}: ${error.message}`
    throw new Exit(EXIT.configuration, message, { cause: error })
  }
}

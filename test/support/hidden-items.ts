import { join } from 'node:path'
import { mapKey, toHex } from '../../src/chain/index.ts'
import { itemsMap, storedDatabase } from '../../src/ledger/log/state-follower.ts'
import { STATE_FILE, StateFile } from '../../src/storage/index.ts'
import { changeMap } from '../../src/storage/state/stored-map.ts'

/** Returns whether the folder has a state with a signature. */
export function hasState(folder: string): boolean {
  const file = StateFile.openReader(join(folder, STATE_FILE))
  const isSigned = file?.head().note?.includes('\n— ') ?? false
  file?.close()
  return isSigned
}

/** Removes an item from the state file of a closed node, whose next signed state then lacks the item. */
export function hideItem(folder: string, db: string, id: string): void {
  const file = StateFile.open(join(folder, STATE_FILE))
  const database = storedDatabase(file, db)
  if (database === null) throw new Error(`there is no database ${db}`)
  file.transaction(() => {
    changeMap(file.pages(itemsMap(database.position)), new Map([[toHex(mapKey(id)), () => null]]))
  })
  file.close()
}

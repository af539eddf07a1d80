import { join } from 'node:path'
import {
  formatDatabaseState,
  logOrigin,
  mapKey,
  parseStateNote,
  toHex,
} from '../../src/chain/index.ts'
import { findNodeKey } from '../../src/ledger/log/node-key.ts'
import { toLogKey } from '../../src/ledger/log/signed-head.ts'
import { DATABASES_MAP, itemsMap } from '../../src/ledger/log/state-changes.ts'
import { storedDatabase } from '../../src/ledger/log/state-follower.ts'
import { stateSigner } from '../../src/ledger/log/state-keeper.ts'
import { changeMap, STATE_FILE, StateFile, type ValueChange } from '../../src/storage/index.ts'

/** Returns whether the folder has a state with a signature. */
export function hasState(folder: string): boolean {
  const file = StateFile.openReader(join(folder, STATE_FILE))
  const isSigned = file?.head().note?.includes('\n— ') ?? false
  file?.close()
  return isSigned
}

/** Removes an item from the signed state of a closed node, as only the holder of its key can. */
export function hideItem(folder: string, db: string, id: string): void {
  const file = StateFile.open(join(folder, STATE_FILE))
  const database = storedDatabase(file, db)
  const key = findNodeKey(folder)
  const { note, ...head } = file.head()
  if (database === null || key === null || note === null) throw new Error(`no state of ${db}`)
  const { root, ...state } = parseStateNote({ name: logOrigin(key.serverId) }, note)
  const changed = (name: string, value: string | null) =>
    new Map<string, ValueChange>([[toHex(mapKey(name)), { apply: () => value }]])
  file.transaction(() => {
    const pages = file.pages(itemsMap(database.position))
    const items = changeMap(pages, database.items, changed(id, null))
    const value = formatDatabaseState({ ...database, items })
    const wrong = changeMap(file.pages(DATABASES_MAP), root, changed(db, value))
    file.setHead({ ...head, note: stateSigner(toLogKey(key))({ ...state, root: wrong }) })
  })
  file.close()
}

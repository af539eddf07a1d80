import type { Json } from '../base/json.ts'
import { ENTRIES_MAX } from '../chain/index.ts'
import { LedgerError } from './errors.ts'
import { itemText, requireItem } from './item.ts'
import { checkDatabaseName, checkItemId } from './names.ts'
import {
  type Change,
  checkUnit,
  type Operation,
  type OwnChange,
  type UnitOfWork,
} from './unit-of-work.ts'

/**
 * The unit of work that makes `changes`, each of which names its id. Errors: as for `recordChanges`, as
 * far as they follow from the changes alone; nothing is refused later because of what is in them.
 */
export function unitOf(changes: readonly OwnChange[]): UnitOfWork {
  refuseTooMany(changes)
  const unit = changes.map(({ assigned = false, ...change }) => {
    const operation = operationOf(change, noId)
    return operation.kind === 'create_item' ? { ...operation, assigned } : operation
  })
  checkUnit(unit)
  return unit
}

function noId(): never {
  throw new LedgerError('ITEM_ID_INVALID', 'an item needs an id here')
}

/** The operation that makes `change`; `newId` names an item that has no id. Errors: as for the change. */
export function operationOf(change: Change, newId: () => string): Operation {
  switch (change.method) {
    case 'create_db':
    case 'delete_db':
      checkDatabaseName(change.db)
      return { kind: change.method, db: change.db }
    case 'create_item':
      return creationOf(change.db, change.item, newId)
    case 'update_item': {
      const { db, item } = change
      if (typeof item.id !== 'string') {
        throw new LedgerError('ITEM_ID_INVALID', 'an update_item entry needs the id in its item')
      }
      checkPath(db, item.id)
      return { kind: 'update_item', db, id: item.id, text: itemText(item) }
    }
    case 'delete_item':
      checkPath(change.db, change.id)
      return { kind: 'delete_item', db: change.db, id: change.id }
  }
}

/** The operation that creates `given` in `db`. Errors: ITEM_INVALID, ITEM_ID_INVALID, ITEM_TOO_LARGE. */
export function creationOf(
  db: string,
  given: Json,
  newId: () => string,
): Extract<Operation, { kind: 'create_item' }> {
  const item = requireItem(given)
  checkDatabaseName(db)
  const kind = 'create_item'
  if (item.id === undefined) {
    const id = newId()
    return { kind, db, id, text: itemText(item, id), assigned: true }
  }
  const { id } = item
  if (typeof id !== 'string') {
    throw new LedgerError('ITEM_ID_INVALID', 'the id of an item is a string, or left out')
  }
  checkItemId(id)
  return { kind, db, id, text: itemText(item), assigned: false }
}

/**
 * Names are checked for every change, not only where they are made: they cross to the writer as
 * lines, so a name with a newline in it would be read there as another change.
 */
export function checkPath(db: string, id: string): void {
  checkDatabaseName(db)
  checkItemId(id)
}

/** Before anything is built for each of them. Errors: UNIT_TOO_LARGE. */
export function refuseTooMany(list: readonly unknown[]): void {
  if (list.length <= ENTRIES_MAX) return
  throw new LedgerError('UNIT_TOO_LARGE', `one request may make ${ENTRIES_MAX} changes`)
}

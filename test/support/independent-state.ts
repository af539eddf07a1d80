import { mapRoot, sha256 } from './map-root.ts'

// Second implementation of the state of a chain, written from docs/reference/ledger/state.md. Shares no code with the
// product. Slow and simple on purpose.

interface ItemModel {
  position: string
  /** Position of the newest change of an attachment, or null. */
  attachments: string | null
}

/** The databases of a chain, with the state of their items. */
export type StateModel = Map<string, { position: string; items: Map<string, ItemModel> }>

/** A block as in `GET /api/ledgers?proof=1`. */
export interface ReplayedBlock {
  readonly body: readonly Record<string, unknown>[]
  readonly proof: { readonly height: number }
}

/** Applies the entries of blocks to `model`. */
export function replayBlocks(model: StateModel, blocks: readonly ReplayedBlock[]): void {
  for (const { body, proof } of blocks) {
    for (const [index, entry] of body.entries()) {
      replayEntry(model, entry, `${proof.height}.${index}`)
    }
  }
}

function replayEntry(model: StateModel, entry: Record<string, unknown>, position: string): void {
  const db = String(entry.db)
  const item = entry.item as { id: string } | undefined
  const id = item?.id ?? String(entry.id)
  const items = model.get(db)?.items
  switch (entry.method) {
    case 'create_db':
      model.set(db, { position, items: new Map() })
      break
    case 'delete_db':
      model.delete(db)
      break
    case 'create_item':
      items?.set(id, { position, attachments: null })
      break
    case 'update_item':
      items?.set(id, { position, attachments: items.get(id)?.attachments ?? null })
      break
    case 'delete_item':
      items?.delete(id)
      break
    case 'create_attachment':
    case 'delete_attachment': {
      const changed = items?.get(id)
      if (changed !== undefined) changed.attachments = position
    }
  }
}

/** Returns the value of an item in its map; null if there is no such item. */
export function modelValue(item: ItemModel | undefined): string | null {
  if (item === undefined) return null
  const list = item.attachments === null ? '' : `"attachments":"${item.attachments}",`
  return `{${list}"position":"${item.position}"}`
}

/** Returns the root of the state. */
export function modelRoot(model: StateModel): Buffer {
  return mapRoot(
    [...model].map(([db, { position, items }]) => {
      const leaves = [...items].map(([id, item]) => [sha256(id), modelValue(item) ?? ''] as const)
      return [sha256(db), `{"items":"${mapRoot(leaves).toString('hex')}","position":"${position}"}`]
    }),
  )
}

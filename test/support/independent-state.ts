import { mapRoot, sha256 } from './map-root.ts'

// Second implementation of the state of a chain, written from docs/reference/ledger/state.md. Shares no code with the
// product. Slow and simple on purpose.

interface ItemModel {
  position: string
  /** Positions by name. */
  attachments: Record<string, string>
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
  const attachment = entry.attachment as { name?: string } | undefined
  switch (entry.method) {
    case 'create_db':
      model.set(db, { position, items: new Map() })
      break
    case 'delete_db':
      model.delete(db)
      break
    case 'create_item':
      items?.set(id, { position, attachments: {} })
      break
    case 'update_item':
      items?.set(id, { position, attachments: items.get(id)?.attachments ?? {} })
      break
    case 'delete_item':
      items?.delete(id)
      break
    case 'create_attachment':
    case 'delete_attachment': {
      const attachments = items?.get(id)?.attachments
      // An erased attachment has no name.
      if (attachments === undefined || attachment?.name === undefined) break
      if (entry.method === 'create_attachment') attachments[attachment.name] = position
      else delete attachments[attachment.name]
    }
  }
}

/** Returns the root of the state. */
export function modelRoot(model: StateModel): Buffer {
  return mapRoot(
    [...model].map(([db, { position, items }]) => {
      const leaves = [...items].map(([id, { position: at, attachments }]) => {
        const names = Object.keys(attachments)
        const sorted = names
          .map((name) => `"${sha256(name).toString('hex')}":"${attachments[name]}"`)
          .sort()
        const list = names.length === 0 ? '' : `"attachments":{${sorted.join()}},`
        return [sha256(id), `{${list}"position":"${at}"}`] as const
      })
      return [sha256(db), `{"items":"${mapRoot(leaves).toString('hex')}","position":"${position}"}`]
    }),
  )
}

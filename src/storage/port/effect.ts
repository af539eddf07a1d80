import { canonicalJson } from '../../base/canonical-json.ts'
import {
  type Attachment,
  type AttachmentMethod,
  type Entry,
  entryText,
  parsePosition,
} from '../../chain/index.ts'

/** A change that an entry makes to a database. `position` is the packed position of the entry. */
export type Effect =
  | { readonly kind: 'create_db' | 'delete_db'; readonly position: number; readonly db: string }
  | {
      readonly kind: 'create_item' | 'update_item'
      readonly position: number
      readonly db: string
      readonly id: string
      /** The whole item in canonical JSON, with its id. */
      readonly text: string
    }
  | {
      readonly kind: 'delete_item'
      readonly position: number
      readonly db: string
      readonly id: string
    }
  | AttachmentEffect
  | {
      /** An erased entry about an attachment, which changes nothing. */
      readonly kind: 'erased_attachment'
      readonly method: AttachmentMethod
      readonly position: number
      readonly db: string
      /** Id of the item. Not called `id`, because the effect does not change the item. */
      readonly of: string
    }
  | {
      readonly kind: 'erase_item'
      readonly position: number
      readonly db: string
      /** Id of the item. Not called `id`, because the effect does not change the item. */
      readonly of: string
      /** Packed positions of the entries to erase, ascending. */
      readonly positions: readonly number[]
    }

export interface AttachmentEffect {
  readonly kind: AttachmentMethod
  readonly position: number
  readonly db: string
  readonly id: string
  readonly attachment: Attachment
}

/**
 * Returns the effect of `entry` at `position`. The databases of a chain depend only on these effects, so that a replay
 * gives the same databases as the original writes.
 */
export function toEffect(entry: Entry, position: number): Effect {
  const { method: kind, db } = entry
  switch (kind) {
    case 'create_db':
    case 'delete_db':
      return { kind, position, db }
    case 'create_item':
    case 'update_item':
      return { kind, position, db, id: entry.item.id, text: canonicalJson(entry.item) }
    case 'delete_item':
      return { kind, position, db, id: entry.id }
    case 'create_attachment':
    case 'delete_attachment': {
      const { id, attachment } = entry
      return attachment.sha256 === undefined
        ? { kind: 'erased_attachment', method: kind, position, db, of: id }
        : { kind, position, db, id, attachment }
    }
    case 'erase_item': {
      const positions = entry.positions.map((text) => parsePosition(text) ?? -1)
      return { kind, position, db, of: entry.id, positions }
    }
  }
}

/**
 * Returns the canonical text of `entry`, which has this effect. A stored entry is in canonical form exactly if it equals
 * this text.
 */
export function toEntryText(effect: Effect, entry: Entry): string {
  const { serverid: serverId } = entry
  switch (effect.kind) {
    case 'create_db':
    case 'delete_db':
      return entryText.database(effect.kind, serverId, effect.db, entry)
    case 'create_item':
    case 'update_item':
      return entryText.item(effect.kind, serverId, effect.db, effect.text, entry)
    case 'delete_item':
      return entryText.deleteItem(serverId, effect.db, effect.id, entry)
    case 'create_attachment':
    case 'delete_attachment':
      return entryText.attachment(effect.kind, serverId, effect, effect.attachment, entry)
    case 'erased_attachment':
      return entryText.attachment(
        effect.method,
        serverId,
        { db: effect.db, id: effect.of },
        null,
        entry,
      )
    case 'erase_item':
      return entryText.eraseItem(serverId, effect.db, effect.of, effect.positions, entry)
  }
}

/** Placeholder for the name and the item. JSON does not escape it, and the rest of an entry does not contain it. */
const MARK = '\u007f'

/** Returns the constant parts of a `create_item` entry, around the database name and the item. */
export function createItemParts(serverId: number): readonly [string, string, string] {
  const [beforeName = '', beforeItem = '', end = ''] = entryText
    .item('create_item', serverId, MARK, MARK)
    .split(MARK)
  return [beforeName, beforeItem, end]
}

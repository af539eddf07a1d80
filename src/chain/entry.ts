import { type Author, decodeAuthor, isTextWithin } from '../base/author.ts'
import { canonicalString } from '../base/canonical-json.ts'
import { isCount, isJsonObject, type Json, type JsonObject, parseJson } from '../base/json.ts'

/** An item as stored: any JSON object with a string `id`. */
export type Item = JsonObject & { id: string }

/** An attachment of an item, with the member names of the wire format. */
export type Attachment = {
  readonly name: string
  readonly content_type: string
  /** In bytes. */
  readonly length: number
  /** SHA-256 of the bytes, 64 lowercase hex digits. */
  readonly sha256: string
}

/** An attachment in an erased entry: an object without members. */
export type ErasedAttachment = { readonly [Member in keyof Attachment]?: never }

/** Who made a change, and why. An entry of a node that requires tokens always has an author. */
export type Authorship = {
  readonly by?: Author
  /** 1 to REASON_BYTES_MAX bytes. */
  readonly reason?: string
}

export const REASON_BYTES_MAX = 1_024

/**
 * A recorded change, with the member names of the specification (“Ledger entry”). `serverid` identifies the node that
 * recorded the change. The specification does not define `delete_db`, `erase_item`, the methods of attachments, and who
 * made the change; see docs/reference/ledger/chain-format.md.
 */
export type Entry = Authorship & { serverid: number; db: string } & (
    | { method: 'create_db' | 'delete_db' }
    | { method: 'create_item' | 'update_item'; item: Item }
    | { method: 'delete_item'; id: string }
    | { method: AttachmentMethod; id: string; attachment: Attachment | ErasedAttachment }
    | { method: 'erase_item'; id: string; positions: string[] }
  )

export type AttachmentMethod = 'create_attachment' | 'delete_attachment'

/** Maximum entries of a block. A larger unit of work is rejected. */
export const ENTRIES_MAX = 10_000
/**
 * Maximum bytes of the entries of a block, as UTF-8. Every bound on a block that is stored, sent or read derives from
 * this one.
 */
export const ENTRIES_BYTES_MAX: number = 64 * 1024 * 1024
/**
 * Functions that return an entry as canonical text (RFC 8785). This text is hashed and stored. `itemText` is the
 * canonical text of the item, including its id.
 */
export const entryText = {
  database(
    method: 'create_db' | 'delete_db',
    serverId: number,
    db: string,
    made: Authorship = {},
  ): string {
    return `{${byMember(made)}"db":${canonicalString(db)},"method":"${method}",${reasonMember(made)}"serverid":${serverId}}`
  },
  item(
    method: 'create_item' | 'update_item',
    serverId: number,
    db: string,
    itemText: string,
    made: Authorship = {},
  ): string {
    return `{${byMember(made)}"db":${canonicalString(db)},"item":${itemText},"method":"${method}",${reasonMember(made)}"serverid":${serverId}}`
  },
  deleteItem(serverId: number, db: string, id: string, made: Authorship = {}): string {
    return `{${byMember(made)}"db":${canonicalString(db)},"id":${canonicalString(id)},"method":"delete_item",${reasonMember(made)}"serverid":${serverId}}`
  },
  /** Returns a `create_attachment` or `delete_attachment` entry. If `attachment` is null, returns the erased form. */
  attachment(
    method: AttachmentMethod,
    serverId: number,
    { db, id }: { readonly db: string; readonly id: string },
    attachment: Attachment | null,
    made: Authorship = {},
  ): string {
    const about = attachment === null ? '{}' : attachmentText(attachment)
    return `{"attachment":${about},${byMember(made)}"db":${canonicalString(db)},"id":${canonicalString(id)},"method":"${method}",${reasonMember(made)}"serverid":${serverId}}`
  },
  /** `positions` are packed, in ascending order. */
  eraseItem(
    serverId: number,
    db: string,
    id: string,
    positions: readonly number[],
    made: Authorship = {},
  ): string {
    const texts = positions.map((position) => `"${positionText(position)}"`).join(',')
    return `{${byMember(made)}"db":${canonicalString(db)},"id":${canonicalString(id)},"method":"erase_item","positions":[${texts}],${reasonMember(made)}"serverid":${serverId}}`
  },
}

/** Returns the member `by` of a canonical entry with the comma after it, or an empty text. */
function byMember({ by }: Authorship): string {
  if (by === undefined) return ''
  const issuer = by.iss === undefined ? '' : `"iss":${canonicalString(by.iss)},`
  return `"by":{${issuer}"sub":${canonicalString(by.sub)}},`
}

/** Returns the member `reason` of a canonical entry with the comma after it, or an empty text. */
function reasonMember({ reason }: Authorship): string {
  return reason === undefined ? '' : `"reason":${canonicalString(reason)},`
}

/** The canonical text (RFC 8785) of an attachment. */
export function attachmentText({ content_type, length, name, sha256 }: Attachment): string {
  return `{"content_type":${canonicalString(content_type)},"length":${length},"name":${canonicalString(name)},"sha256":"${sha256}"}`
}

/**
 * Returns `value` as an entry, or null unless `value` has a known method and exactly the members of that method. Used
 * for values from a disk or from another node.
 */
export function decodeEntry(value: Json): Entry | null {
  if (!isJsonObject(value)) return null
  const { serverid, method, db, item, id, attachment, positions } = value
  if (typeof serverid !== 'number' || !Number.isSafeInteger(serverid)) return null
  if (typeof db !== 'string') return null
  const made = decodeAuthorship(value)
  if (made === null) return null
  const common = { serverid, db, ...made }
  // The members besides those of every entry.
  const members = Object.keys(value).length - 2 - Object.keys(made).length
  switch (method) {
    case 'create_db':
    case 'delete_db':
      return members === 1 ? { ...common, method } : null
    case 'create_item':
    case 'update_item':
      return members === 2 && isItem(item) ? { ...common, method, item } : null
    case 'delete_item':
      return members === 2 && typeof id === 'string' ? { ...common, method, id } : null
    case 'create_attachment':
    case 'delete_attachment': {
      const about = isEmpty(attachment) ? {} : decodeAttachment(attachment)
      return members === 3 && typeof id === 'string' && about !== null
        ? { ...common, method, id, attachment: about }
        : null
    }
    case 'erase_item':
      return members === 3 && typeof id === 'string' && isPositions(positions)
        ? { ...common, method, id, positions }
        : null
    default:
      return null
  }
}

/** Returns `by` and `reason` of an entry, or null if one of them is invalid. */
function decodeAuthorship({ by, reason }: JsonObject): Authorship | null {
  const author = by === undefined ? undefined : decodeAuthor(by)
  if (author === null || (reason !== undefined && !isReason(reason))) return null
  return pickAuthorship({ by: author, reason })
}

/** Returns only `by` and `reason`, without members that are undefined. */
export function pickAuthorship({
  by,
  reason,
}: { readonly [Member in keyof Authorship]: Authorship[Member] | undefined }): Authorship {
  return { ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) }
}

/** The members of a canonical entry up to `db`. The members of an attachment or an author are texts and numbers. */
const HEAD =
  /^\{(?:"attachment":\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\},)?(?:"by":(\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\}),)?"db":("(?:[^"\\]|\\.)*")/

/** The database and the author of an entry. */
export interface EntryHead {
  readonly db: string
  readonly by: Author | null
}

/** Returns the head of a canonical entry, or null. Does not parse the item. */
export function parseEntryHead(text: string): EntryHead | null {
  const [, by, db] = HEAD.exec(text) ?? []
  if (db === undefined) return null
  return { db: parseJson(db), by: by === undefined ? null : decodeAuthor(parseJson(by)) }
}

/** Whether `value` can be the reason of a change. */
export function isReason(value: unknown): value is string {
  return isTextWithin(value, REASON_BYTES_MAX)
}

/** Whether `entry` has the content of its method; an erased attachment has none. */
export function hasContent(entry: Entry): boolean {
  return !('attachment' in entry) || entry.attachment.sha256 !== undefined
}

function isItem(value: Json | undefined): value is Item {
  return isJsonObject(value) && typeof value.id === 'string'
}

function isEmpty(value: Json | undefined): boolean {
  return isJsonObject(value) && Object.keys(value).length === 0
}

export function decodeAttachment(value: Json | undefined): Attachment | null {
  if (!isJsonObject(value) || Object.keys(value).length !== 4) return null
  const { name, content_type, length, sha256 } = value
  if (typeof name !== 'string' || typeof content_type !== 'string') return null
  if (!isCount(length)) return null
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) return null
  return { name, content_type, length, sha256 }
}

function isPositions(value: Json | undefined): value is string[] {
  if (!Array.isArray(value) || value.length === 0) return false
  let last = -1
  return value.every((text) => {
    const position = typeof text === 'string' ? parsePosition(text) : null
    const follows = position !== null && position > last
    last = position ?? last
    return follows
  })
}

/** Number of positions reserved per block in a packed position: a power of two above ENTRIES_MAX. */
const POSITIONS_PER_BLOCK = 16_384

/** Position of an entry in its chain. */
export interface Position {
  readonly height: number
  readonly index: number
}

/**
 * Packs a position into one integer that sorts in chain order. In a store, the packed position of the entry that
 * created a database or an item identifies it. This position is equal on every node that replays the chain.
 */
export function packPosition(height: number, index: number): number {
  return height * POSITIONS_PER_BLOCK + index
}

export function unpackPosition(packed: number): Position {
  return { height: unpackHeight(packed), index: packed % POSITIONS_PER_BLOCK }
}

export function unpackHeight(packed: number): number {
  return Math.floor(packed / POSITIONS_PER_BLOCK)
}

/** Formats a packed position as `<height>.<index>`, as in HTTP headers and messages. */
export function positionText(packed: number): string {
  return `${unpackHeight(packed)}.${packed % POSITIONS_PER_BLOCK}`
}

/** Parses `<height>.<index>` and returns the packed position, or null if `text` is invalid. */
export function parsePosition(text: string): number | null {
  const match = /^(0|[1-9]\d{0,11})\.(0|[1-9]\d{0,4})$/.exec(text)
  if (match === null) return null
  const [height, index] = [Number(match[1]), Number(match[2])]
  const packed = packPosition(height, index)
  return index < POSITIONS_PER_BLOCK && Number.isSafeInteger(packed) ? packed : null
}

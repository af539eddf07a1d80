import type { Author } from '../base/author.ts'

/** An item as returned by a read, with its id. */
export type Stored<Item> = Item & { readonly id: string }

/** The name of a member of an item; for a union of item types, of a member of any of these types. */
export type MemberName<Item> = Item extends unknown ? keyof Stored<Item> & string : never

/** The members of an item that a query with `fields` returns; without `fields`, the whole item. */
export type Selected<Item, Field> = [Field] extends [never]
  ? Stored<Item>
  : Item extends unknown
    ? Pick<Stored<Item>, Field & keyof Stored<Item>>
    : never

/** Members to change, as in RFC 7396: null removes an optional member, and an object changes members of an object. */
export type Patch<Item> = {
  readonly [Member in keyof Item]?: PatchedMember<Item[Member]> | RemovedMember<Item, Member>
}

type PatchedMember<Value> = Value extends Nested ? Patch<Value> : Value

/** An object of JSON other than a list. */
type Nested = object & { readonly length?: never }

/** null if the member is optional. */
type RemovedMember<Item, Member extends keyof Item> = undefined extends Item[Member] ? null : never

/** A revision of an item. */
export interface Revision<Item> {
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly method: string
  /** Who made the change, and why; absent if the entry has none, or was erased. */
  readonly by?: Author
  readonly reason?: string
  /** Absent if this revision deleted the item, or was erased. */
  readonly item?: Stored<Item>
  /** Set if the content of the revision was erased. A verifying client then proves only the revision's position. */
  readonly erased?: true
}

/** The result of a read. */
export interface Read<Item> {
  readonly item: Stored<Item>
  readonly position: string
  /** The value for `ifMatch`. */
  readonly etag: string
}

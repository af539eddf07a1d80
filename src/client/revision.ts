/** An item as it is read: with its id. */
export type Stored<Item> = Item & { readonly id: string }

/** A revision of an item. */
export interface Revision<Item> {
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly method: string
  /** Absent where the item was deleted, and where this revision was erased. */
  readonly item?: Stored<Item>
  /** The content of the revision was erased; where the client verifies, only its place is proven. */
  readonly erased?: true
}

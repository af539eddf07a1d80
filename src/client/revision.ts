/** An item as it is read: with its id. */
export type Stored<Item> = Item & { readonly id: string }

/** A revision of an item. */
export interface Revision<Item> {
  readonly position: string
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly method: string
  /** Absent where the item was deleted. */
  readonly item?: Stored<Item>
  /** Where the client verifies: what is left after an erasure, of which only the place is proven. */
  readonly erased?: true
}

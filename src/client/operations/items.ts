// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `items`, by method and path. */
export interface ItemsCalls {
  /** List the ids of a database, in the order of creation */
  'GET /api/{db}': {
    input: {
      path: { db: string }
      query?: {
        limit?: number
        offset?: number
        after?: string
        docs?: 'true' | '1' | 'false' | '0'
        filter?: string
      }
    }
    reply: {
      status: true
      items: readonly string[]
      docs?: readonly { [member: string]: unknown }[]
      limit: number
      offset: number
    }
  }
  /** Read one item, as it is or as it was */
  'GET /api/{db}/{id}': {
    input: { path: { db: string; id: string }; query?: { at?: number } }
    reply: {
      status: true
      /** As stored, with its id */
      item: {
        /** Id of the item */
        id: string
        [member: string]: unknown
      }
    }
  }
  /** Replace one item */
  'POST /api/{db}/{id}': {
    input: { path: { db: string; id: string }; body: { [member: string]: unknown } }
    reply:
      | {
          status: true
          /** Id of the item */
          id: string
        }
      | {
          status: true
          /** In the order of the list */
          ids: readonly string[]
        }
      | { status: true }
  }
  /** Change members of one item (RFC 7396) */
  'PATCH /api/{db}/{id}': {
    input: { path: { db: string; id: string }; body: { [member: string]: unknown } }
    reply:
      | {
          status: true
          /** Id of the item */
          id: string
        }
      | {
          status: true
          /** In the order of the list */
          ids: readonly string[]
        }
      | { status: true }
  }
  /** Delete one item; the ledger keeps its entries */
  'DELETE /api/{db}/{id}': { input: { path: { db: string; id: string } }; reply: { status: true } }
  /** List all that became of one item, also of a deleted one */
  'GET /api/{db}/{id}/history': {
    input: {
      path: { db: string; id: string }
      query?: { limit?: number; cursor?: string; order?: 'oldest' | 'newest' }
    }
    reply: {
      status: true
      history: readonly {
        /** `<height>.<index>` of an entry */
        position: string
        /** Milliseconds since the Unix epoch */
        timestamp: number
        method: string
        /** As it was then; absent where it was deleted, and where it was erased */
        item?: { [member: string]: unknown }
        /** Where the content of the revision was erased */
        erased?: true
      }[]
      limit: number
      /** For the next page; null when this was the last one */
      cursor: string | null
    }
  }
  /** Erase what an item and its attachments were and are no longer */
  'POST /api/{db}/{id}/erase': {
    input: { path: { db: string; id: string }; body?: { positions?: readonly string[] } }
    reply: { status: true; positions: readonly string[] }
  }
}

// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `ledger`, by method and path. */
export interface LedgerCalls {
  /** The server id of this node */
  'GET /api/serverid': { input: object; reply: { status: true; serverid: number } }
  /** List the blocks of a chain; `offset` is a height */
  'GET /api/ledgers': {
    input: {
      query: {
        serverid: string
        limit?: number
        offset?: number
        proof?: 'true' | '1' | 'false' | '0'
      }
    }
    reply: {
      status: true
      ledgers: readonly {
        prev_id: string | null
        body: readonly {
          serverid: number
          method: string
          /** Name of the database */
          db: string
          [member: string]: unknown
        }[]
        timestamps: readonly number[]
        nonce: number
        id: string
        proof?: {
          height: number
          root: string
          blinds: readonly string[]
          commitments: readonly string[]
        }
      }[]
      limit: number
      offset: number
    }
  }
  /** Record several changes of any databases in one block, or none of them */
  'POST /api/ledgers': {
    input: {
      body: {
        entries: readonly (
          | {
              method: 'create_db' | 'delete_db'
              /** Name of the database */
              db: string
            }
          | {
              method: 'create_item' | 'update_item'
              /** Name of the database */
              db: string
              /** Any JSON object */
              item: { [member: string]: unknown }
            }
          | {
              method: 'delete_item'
              /** Name of the database */
              db: string
              /** Id of the item */
              id: string
            }
        )[]
      }
    }
    reply: {
      status: true
      block: { serverid: number; height: number; id: string }
      results: readonly { id: string | null }[]
    }
  }
  /** Follow the entries of a chain as they are recorded (server-sent events) */
  'GET /api/ledgers/{serverid}/changes': {
    input: { path: { serverid: string }; query?: { db?: readonly string[]; since?: string } }
    reply: unknown
  }
  /** Bring blocks of the own chain to a node that mirrors it; signed (RFC 9421) */
  'POST /api/ledgers/{serverid}': {
    input: { path: { serverid: string } }
    reply: {
      status: true
      /** Blocks that are stored */
      size: number
      /** Blocks of the newest head that was believed */
      seen: number
    }
  }
}

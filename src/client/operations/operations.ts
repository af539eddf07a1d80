// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `operations`, by method and path. */
export interface OperationsCalls {
  /** List the indexes of the databases of this node */
  'GET /api/config/indexes': {
    input: object
    reply: {
      status: true
      indexes: readonly {
        /** Name of the database */
        db: string
        /** Members of the items, with dots between them */
        path: string
        state: 'building' | 'ready'
        /** Blocks gone through since the database was created */
        done: number
        /** Blocks to go through */
        total: number
      }[]
    }
  }
  /** Declare an index, which is then built in the background */
  'POST /api/config/indexes': {
    input: {
      body: {
        /** Name of the database */
        db: string
        /** Members of the items, with dots between them */
        path: string
      }
    }
    reply: { status: true }
  }
  /** Remove an index, named in the body or the query */
  'DELETE /api/config/indexes': {
    input: {
      query?: { db?: string; path?: string }
      body?: {
        /** Name of the database */
        db: string
        /** Members of the items, with dots between them */
        path: string
      }
    }
    reply: { status: true }
  }
  /** List the peers whose chains are mirrored here, and how it stands with each */
  'GET /api/config/peers': {
    input: object
    reply: {
      status: true
      peers: readonly {
        serverid: number
        /** Verifier key of the node whose chain is mirrored; its `…/vkey` shows it */
        vkey: string
        url: string | null
        push: boolean
        /** Whether the settings name it */
        fixed: boolean
        state: 'current' | 'behind' | 'failing' | 'frozen'
        /** Stored here */
        blocks: number
        /** Blocks that are signed and not stored here yet */
        lag: number
        /** Contents of its attachments that `url` does not have, as far as was looked */
        absent: number
        /** When the last round ended well, milliseconds since the Unix epoch */
        current: number | null
        error: { code: string; message: string } | null
        evidence: {
          what: string
          /** Signed, and not both true */
          notes: readonly string[]
        } | null
      }[]
      evidence: {
        what: string
        /** Signed, and not both true */
        notes: readonly string[]
      } | null
    }
  }
  /** Mirror the chain of a node; again changes nothing */
  'POST /api/config/peers': {
    input: {
      body: {
        /** Verifier key of the node whose chain is mirrored; its `…/vkey` shows it */
        vkey: string
        /** Root of the listener of a node that has the chain: its own, or another mirror */
        url?: string
        /** Whether the node's own chain is pushed to `url` */
        push?: boolean
      }
    }
    reply: { status: true }
  }
  /** Stop mirroring a chain; what was mirrored stays and is served */
  'DELETE /api/config/peers/{serverid}': {
    input: { path: { serverid: string } }
    reply: { status: true }
  }
  /** The process answers */
  'GET /healthz': { input: object; reply: { status: true } }
  /** Changes can be written, and what was read could be read */
  'GET /readyz': { input: object; reply: { status: true } }
}

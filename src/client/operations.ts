// Made by scripts/make-client-types.ts. Do not edit.
/** The input and the reply of each operation, by method and path. */
export interface Operations {
  /** List the databases; where tokens are required, those that the token can read */
  'GET /api/dbs': { input: object; reply: { status: true; dbs: readonly string[] } }
  /** Create a database (no body), an item (an object), or items (an array) */
  'POST /api/{db}': {
    input: {
      path: { db: string }
      body?: { [member: string]: unknown } | readonly { [member: string]: unknown }[]
    }
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
  /** Delete a database with all its items; the ledger keeps every entry */
  'DELETE /api/{db}': { input: { path: { db: string } }; reply: { status: true } }
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
  /** The server id of this node */
  'GET /api/serverid': { input: object; reply: { status: true; serverid: number } }
  /** List the blocks of a chain; `offset` is a height */
  'GET /api/ledgers': {
    input: {
      query: {
        limit?: number
        offset?: number
        serverid: string
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
  /** Read an attachment, or the parts that `Range` asks for */
  'GET /api/{db}/{id}/attachments/{name}': {
    input: { path: { db: string; id: string; name: string } }
    reply: unknown
  }
  /** Delete one attachment; its bytes stay as long as the ledger names them */
  'DELETE /api/{db}/{id}/attachments/{name}': {
    input: { path: { db: string; id: string; name: string } }
    reply: { status: true }
  }
  /** Attach the bytes of the body to an item, in place of what has that name */
  'PUT /api/{db}/{id}/attachments/{name}': {
    input: { path: { db: string; id: string; name: string } }
    reply: {
      status: true
      attachment: {
        content_type: string
        /** Bytes */
        length: number
        name: string
        /** Of the bytes, 64 hexadecimal digits */
        sha256: string
      }
    }
  }
  /** List what is attached to an item, by name */
  'GET /api/{db}/{id}/attachments': {
    input: { path: { db: string; id: string }; query?: { limit?: number; offset?: number } }
    reply: {
      status: true
      attachments: readonly {
        content_type: string
        /** Bytes */
        length: number
        name: string
        /** Of the bytes, 64 hexadecimal digits */
        sha256: string
      }[]
      limit: number
      offset: number
    }
  }
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
  /** Erase what an item and its attachments were and are no longer */
  'POST /api/{db}/{id}/erase': {
    input: { path: { db: string; id: string }; body?: { positions?: readonly string[] } }
    reply: { status: true; positions: readonly string[] }
  }
  /** The signed size and root of the log (C2SP tlog-checkpoint) */
  'GET /api/ledgers/{serverid}/checkpoint': {
    input: { path: { serverid: string } }
    reply: unknown
  }
  /** The key that verifies checkpoints (C2SP signed-note); pin it once */
  'GET /api/ledgers/{serverid}/vkey': { input: { path: { serverid: string } }; reply: unknown }
  /** Hashes of the log, or its entries, 256 at a time (C2SP tlog-tiles) */
  'GET /api/ledgers/{serverid}/tile/{*}': {
    input: { path: { serverid: string; '*': string } }
    reply: unknown
  }
  /** Proves that the log of one size continues the log of a smaller one (RFC 6962) */
  'GET /api/ledgers/{serverid}/consistency': {
    input: { path: { serverid: string }; query: { from: number; to?: number } }
    reply: { status: true; from: number; to: number; proof: readonly string[] }
  }
  /** A file that proves an entry of an item with nothing but the key (C2SP tlog-proof) */
  'GET /api/{db}/{id}/proof': {
    input: { path: { db: string; id: string }; query?: { position?: string } }
    reply: unknown
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
  /** List contents of attachments that entries of a chain name and that are not here */
  'GET /api/ledgers/{serverid}/attachments': {
    input: { path: { serverid: string }; query?: { after?: string; limit?: number } }
    reply: {
      status: true
      absent: readonly {
        /** Of the content */
        sha256: string
        /** Bytes */
        length: number
        /** Bytes of it that have come */
        size: number
      }[]
      /** The last entry that was looked at; go on with it while there is `more` */
      after: string | null
      more: boolean
    }
  }
  /** Read a content of attachments by its SHA-256, or the parts that `Range` asks for */
  'GET /api/ledgers/{serverid}/attachments/{sha256}': {
    input: { path: { serverid: string; sha256: string } }
    reply: unknown
  }
  /** Bring a part of a content of the own attachments to a node; signed (RFC 9421) */
  'POST /api/ledgers/{serverid}/attachments/{sha256}': {
    input: { path: { serverid: string; sha256: string }; query: { offset: number } }
    reply: {
      status: true
      /** Bytes that are here: where the next part begins */
      size: number
    }
  }
  /** The process answers */
  'GET /healthz': { input: object; reply: { status: true } }
  /** Changes can be written, and what was read could be read */
  'GET /readyz': { input: object; reply: { status: true } }
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

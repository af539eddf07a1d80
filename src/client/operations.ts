// Made by scripts/make-client-types.ts. Do not edit.
/** The input and the reply of each operation with JSON or text, by method and path. */
export interface Operations {
  /** List the databases; if the node requires tokens, only those that the token can read */
  'GET /api/dbs': {
    input: {
      query?: {
        count?: 'true' | '1' | 'false' | '0'
        created?: 'true' | '1' | 'false' | '0'
        at?: string
      }
    }
    reply: {
      dbs: readonly string[]
      /** In the order of `dbs` */
      counts?: readonly number[]
      /** `<height>.<index>`, likewise */
      created?: readonly string[]
      /** Height of the block to which the reply belongs */
      at?: number
    }
  }
  /** Create a database (no body), an item (an object), or items (an array) */
  'POST /api/{db}': {
    input: {
      path: { db: string }
      body?: { [member: string]: unknown } | readonly { [member: string]: unknown }[]
    }
    reply:
      | {
          /** Id of the item */
          id: string
        }
      | {
          /** In the order of the list */
          ids: readonly string[]
        }
      | object
  }
  /** Delete a database with all its items; the ledger keeps every entry */
  'DELETE /api/{db}': { input: { path: { db: string } }; reply: object }
  /** List the ids of a database, in creation order */
  'GET /api/{db}': {
    input: {
      path: { db: string }
      query?: {
        limit?: number
        offset?: number
        after?: string
        cursor?: string
        docs?: 'true' | '1' | 'false' | '0'
        count?: 'true' | '1' | 'false' | '0'
        filter?: string
        at?: string
        proof?: 'true' | '1' | 'false' | '0'
      }
    }
    reply: {
      items: readonly string[]
      docs?: readonly { [member: string]: unknown }[]
      limit: number
      offset: number
      /** Number of all matching items, regardless of `limit`, `offset`, `after` and `cursor` */
      count?: number
      /** Position of the last item; null if the list has fewer than `limit` items */
      cursor?: string | null
      /** Height of the block to which the reply belongs */
      at?: number
    }
  }
  /** Read one item, in its current state or as of a block */
  'GET /api/{db}/{id}': {
    input: { path: { db: string; id: string }; query?: { at?: string } }
    reply: {
      /** The item as stored, with its id */
      item: {
        /** Id of the item */
        id: string
        [member: string]: unknown
      }
      /** Height of the block to which the reply belongs */
      at?: number
    }
  }
  /** Replace one item */
  'POST /api/{db}/{id}': {
    input: { path: { db: string; id: string }; body: { [member: string]: unknown } }
    reply: {
      /** Id of the item */
      id: string
    }
  }
  /** Change members of one item (RFC 7396) */
  'PATCH /api/{db}/{id}': {
    input: { path: { db: string; id: string }; body: { [member: string]: unknown } }
    reply: {
      /** Id of the item */
      id: string
    }
  }
  /** Delete one item; the ledger keeps its entries */
  'DELETE /api/{db}/{id}': { input: { path: { db: string; id: string } }; reply: object }
  /** Count items and compute sums, averages and extremes, by up to two members */
  'GET /api/config/aggregate': {
    input: {
      query: {
        db: string
        group?: string
        sum?: string
        avg?: string
        min?: string
        max?: string
        filter?: string
        at?: string
      }
    }
    reply: {
      /** At most 1000 groups, in the order of their values */
      groups: readonly {
        group: { [member: string]: string | number | boolean | null }
        count: number
        sum?: { [member: string]: number | null }
        avg?: { [member: string]: number | null }
        min?: { [member: string]: number | string | null }
        max?: { [member: string]: number | string | null }
      }[]
      /** Height of the newest block when the aggregation started */
      height: number
      /** True if no block was added during the aggregation; then the reply is exact for `height` */
      consistent: boolean
      /** Height of the block to which the reply belongs */
      at?: number
    }
  }
  /** List the items that were created, updated or deleted between two states */
  'GET /api/config/diff': {
    input: {
      query: {
        db?: string
        from: string
        to?: string
        docs?: 'true' | '1' | 'false' | '0'
        limit?: number
      }
    }
    reply: {
      changes: readonly {
        db: string
        id: string
        change: 'created' | 'updated' | 'deleted'
        /** Any JSON object */
        before?: { [member: string]: unknown }
        /** Any JSON object */
        after?: { [member: string]: unknown }
      }[]
      /** Height of the last block of the former state */
      from: number
      /** Height of the last block of the later state */
      to: number
      /** Only with `limit`: whether there are more than `limit` changes */
      more?: boolean
    }
  }
  /** List the history of one item, even if it is deleted */
  'GET /api/{db}/{id}/history': {
    input: {
      path: { db: string; id: string }
      query?: { limit?: number; cursor?: string; order?: 'oldest' | 'newest' }
    }
    reply: {
      history: readonly {
        /** `<height>.<index>` of an entry */
        position: string
        /** Milliseconds since the Unix epoch */
        timestamp: number
        method: string
        /** The item at that time; absent if it was deleted or erased */
        item?: { [member: string]: unknown }
        /** Present if the content of the revision was erased */
        erased?: true
        /** Who made the change */
        by?: {
          /** Subject of the token, or participant of a network */
          sub: string
          /** Issuer; absent for the tokens and commands of this node */
          iss?: string
        }
        /** Why the change was made, 1 to 1024 bytes */
        reason?: string
      }[]
      limit: number
      /** Cursor of the next page; null on the last page */
      cursor: string | null
    }
  }
  /** The server id of this node */
  'GET /api/serverid': { input: object; reply: { serverid: number } }
  /** List the blocks of a chain; `offset` is a height */
  'GET /api/ledgers': {
    input: {
      query: {
        limit?: number
        offset?: number
        serverid: string
        db?: string
        proof?: 'true' | '1' | 'false' | '0'
      }
    }
    reply: {
      ledgers: readonly {
        prev_id: string | null
        body: readonly {
          serverid: number
          method: string
          /** Name of the database */
          db: string
          /** Who made the change */
          by?: {
            /** Subject of the token, or participant of a network */
            sub: string
            /** Issuer; absent for the tokens and commands of this node */
            iss?: string
          }
          /** Why the change was made, 1 to 1024 bytes */
          reason?: string
          [member: string]: unknown
        }[]
        timestamps: readonly number[]
        nonce: number
        id: string
        proof?: {
          height: number
          root: string
          blinds: readonly (string | null)[]
          commitments: readonly string[]
        }
      }[]
      limit: number
      offset: number
    }
  }
  /** Record several changes, even of different databases, in one block, or none of them */
  'POST /api/ledgers': {
    input: {
      body: {
        entries: readonly (
          | {
              method: 'create_db' | 'delete_db'
              /** Name of the database */
              db: string
              /** Why the change was made, 1 to 1024 bytes */
              reason?: string
            }
          | {
              method: 'create_item' | 'update_item' | 'patch_item'
              db: string
              /** Any JSON object */
              item: { [member: string]: unknown }
              reason?: string
            }
          | {
              method: 'delete_item'
              db: string
              /** Id of the item */
              id: string
              reason?: string
            }
        )[]
      }
    }
    reply: {
      block: { serverid: number; height: number; id: string }
      results: readonly { id: string | null }[]
    }
  }
  /** Subscribe to the entries of a chain as they are recorded (server-sent events) */
  'GET /api/ledgers/{serverid}/changes': {
    input: {
      path: { serverid: string }
      query?: {
        db?: readonly string[]
        by?: string
        iss?: string
        from?: string
        to?: string
        since?: string
        lastEventId?: string
      }
    }
    reply: {
      changes: readonly {
        /** `<height>.<index>` */
        position: string
        /** Milliseconds since the Unix epoch */
        timestamp: number
        entry: {
          serverid: number
          method: string
          /** Name of the database */
          db: string
          /** Who made the change */
          by?: {
            /** Subject of the token, or participant of a network */
            sub: string
            /** Issuer; absent for the tokens and commands of this node */
            iss?: string
          }
          /** Why the change was made, 1 to 1024 bytes */
          reason?: string
          [member: string]: unknown
        }
      }[]
      /** Height from which to search further, because this search ended at a bound; null at the end */
      next: number | null
    }
  }
  /** Delete one attachment; its bytes are kept until the entry is erased */
  'DELETE /api/{db}/{id}/attachments/{name}': {
    input: { path: { db: string; id: string; name: string } }
    reply: object
  }
  /** List the attachments of an item, by name */
  'GET /api/{db}/{id}/attachments': {
    input: {
      path: { db: string; id: string }
      query?: { limit?: number; offset?: number; after?: string; at?: string }
    }
    reply: {
      attachments: readonly {
        content_type: string
        /** Bytes */
        length: number
        name: string
        /** Hash of the bytes, 64 hexadecimal digits */
        sha256: string
      }[]
      limit: number
      offset: number
      /** Height of the block to which the reply belongs */
      at?: number
    }
  }
  /** List the indexes of the databases of this node */
  'GET /api/config/indexes': {
    input: object
    reply: {
      indexes: readonly {
        /** Name of the database */
        db: string
        /** Member names, separated by dots */
        path: string
        state: 'building' | 'ready'
        /** Blocks indexed so far, counted from the creation of the database */
        done: number
        /** Blocks to index, counted from the creation of the database */
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
        /** Member names, separated by dots */
        path: string
      }
    }
    reply: object
  }
  /** Remove the index that the body or the query specifies */
  'DELETE /api/config/indexes': {
    input: {
      query?: { db?: string; path?: string }
      body?: {
        /** Name of the database */
        db: string
        /** Member names, separated by dots */
        path: string
      }
    }
    reply: object
  }
  /** Erase all former revisions of many items and their attachments */
  'POST /api/config/erasures': {
    input: {
      body: {
        /** Name of the database, also of a deleted database */
        db: string
        /** Ids of items */
        ids?: readonly string[]
        /** Predicate of a filter, for the current items, and for deleted items as they were last; `{}` matches all */
        where?: { [member: string]: unknown }
        /** Only deleted items, and those of deleted databases of this name */
        deleted?: true
        /** Count, and erase nothing */
        dryRun?: boolean
        /** Why the change was made, 1 to 1024 bytes */
        reason?: string
        /** The `cursor` of the previous reply */
        cursor?: string
      }
    }
    reply: {
      /** Items of which something was erased, or would be, unless the next request continues them */
      items: number
      /** Erased entries, or those that would be */
      revisions: number
      /** Repeat the request with this cursor; null at the end */
      cursor: string | null
    }
  }
  /** Erase former revisions of an item and its attachments */
  'POST /api/{db}/{id}/erase': {
    input: { path: { db: string; id: string }; body?: { positions?: readonly string[] } }
    reply: { positions: readonly string[] }
  }
  /** The signed size and root hash of the log (C2SP tlog-checkpoint) */
  'GET /api/ledgers/{serverid}/checkpoint': { input: { path: { serverid: string } }; reply: string }
  /** The key that verifies checkpoints (C2SP signed-note); pin it once */
  'GET /api/ledgers/{serverid}/vkey': { input: { path: { serverid: string } }; reply: string }
  /** The signed root of the current databases and items, for `proof?current=1` */
  'GET /api/ledgers/{serverid}/state': { input: { path: { serverid: string } }; reply: string }
  /** Prove that the log at one size is a prefix of the log at a larger size (RFC 6962) */
  'GET /api/ledgers/{serverid}/consistency': {
    input: { path: { serverid: string }; query: { from: number; to?: number } }
    reply: { from: number; to: number; proof: readonly string[] }
  }
  /** A proof of an entry of an item, verifiable with the key alone (C2SP tlog-proof) */
  'GET /api/{db}/{id}/proof': {
    input: {
      path: { db: string; id: string }
      query?: { position?: string; current?: 'true' | '1' | 'false' | '0' }
    }
    reply: string
  }
  /** The key of this node as a witness (C2SP tlog-cosignature) */
  'GET /api/ledgers/witness/vkey': { input: object; reply: string }
  /** List the peers whose chains this node mirrors, with their status */
  'GET /api/config/peers': {
    input: object
    reply: {
      peers: readonly {
        serverid: number
        /** Verifier key of the node whose chain is mirrored, as served at its `…/vkey` */
        vkey: string
        url: string | null
        push: boolean
        /** Whether the peer comes from the settings */
        fixed: boolean
        state: 'current' | 'behind' | 'failing' | 'frozen'
        /** Blocks of the chain that this node has stored */
        blocks: number
        /** Signed blocks of the chain that this node has not stored yet */
        lag: number
        /** Number of missing blobs that `url` does not have either; only blobs checked so far count */
        absent: number
        /** Time of the last successful sync, milliseconds since the Unix epoch */
        current: number | null
        error: { code: string; message: string } | null
        evidence: {
          format: 'daicho-evidence'
          version: 1
          what: string
          /** Signed notes that contradict each other */
          notes: readonly string[]
          proof:
            | { height: number; headers: readonly string[]; paths: readonly (readonly string[])[] }
            | { root: string; path: readonly string[] }
            | { state: string }
            | null
        } | null
      }[]
      evidence: {
        format: 'daicho-evidence'
        version: 1
        what: string
        /** Signed notes that contradict each other */
        notes: readonly string[]
        proof:
          | { height: number; headers: readonly string[]; paths: readonly (readonly string[])[] }
          | { root: string; path: readonly string[] }
          | { state: string }
          | null
      } | null
    }
  }
  /** Mirror the chain of a node; has no effect if this node already mirrors the chain */
  'POST /api/config/peers': {
    input: {
      body: {
        /** Verifier key of the node whose chain is mirrored, as served at its `…/vkey` */
        vkey: string
        /** Base URL of a node that has the chain: the owner of the chain, or another mirror */
        url?: string
        /** Whether the node's own chain is pushed to `url` */
        push?: boolean
      }
    }
    reply: object
  }
  /** Stop mirroring a chain; the blocks stored so far are kept and served */
  'DELETE /api/config/peers/{serverid}': { input: { path: { serverid: string } }; reply: object }
  /** List the blobs to which entries of a chain refer and that this node does not have */
  'GET /api/ledgers/{serverid}/attachments': {
    input: { path: { serverid: string }; query?: { after?: string; limit?: number } }
    reply: {
      absent: readonly {
        /** Hash of the blob */
        sha256: string
        /** Bytes */
        length: number
        /** Bytes received so far */
        size: number
      }[]
      /** Position of the last entry that was checked; pass it as `after` while `more` is true */
      after: string | null
      more: boolean
    }
  }
  /** Create a token with scopes that the token of the request has too */
  'POST /api/config/tokens': {
    input: {
      body: {
        /** Owner of the token, recorded with each change */
        subject: string
        /** Scopes that the token of the request has too */
        scopes: readonly string[]
        /** Lifetime. The token expires with the token of the request, unless that is of a session */
        life_seconds: number
      }
    }
    reply: {
      /** Shown once: the node does not store it */
      token: string
      /** Id of the token, for revoking it */
      jti: string
      /** Expiry, milliseconds since the Unix epoch */
      expires_at: number
    }
  }
  /** List the tokens that this process has issued or accepted since it started */
  'GET /api/config/tokens': {
    input: object
    reply: {
      /** Whether this node requires tokens */
      required: boolean
      since: number | null
      tokens: readonly {
        /** Id of the token, for revoking it */
        jti: string
        subject: string
        /** OpenID Connect issuer; absent for a token of this node */
        issuer?: string
        /** `daicho:api` for this API */
        audience: string
        scopes: readonly string[]
        /** Creation, milliseconds since the Unix epoch */
        issued_at: number
        /** Expiry, milliseconds since the Unix epoch */
        expires_at: number
        last_used: number | null
        revoked: boolean
      }[]
    }
  }
  /** Revoke a token of this node, even if it is not listed */
  'DELETE /api/config/tokens/{jti}': { input: { path: { jti: string } }; reply: object }
  /** List the denied requests of the last hour, of all listeners of this process */
  'GET /api/config/denials': {
    input: object
    reply: {
      denials: readonly {
        /** The listener, e.g. `ledger` */
        component: string
        /** Code of the refusal */
        reason: string
        /** Address of the client or of its proxy */
        address: string
        /** User name or subject of the token, if it is known */
        subject: string | null
        /** Method of the last request */
        method: string
        /** Path of the last request */
        path: string
        count: number
        /** First request, milliseconds since the Unix epoch */
        first: number
        /** Last request, milliseconds since the Unix epoch */
        last: number
      }[]
    }
  }
  /** Read the changes that this process stored in the last 24 hours, by minute */
  'GET /api/config/activity': {
    input: object
    reply: {
      /** Start of the process, milliseconds since the Unix epoch */
      since: number
      /** Time of the node, milliseconds since the Unix epoch */
      now: number
      /** Current size of the store */
      store_bytes: number
      minutes: readonly {
        /** Start of the minute, milliseconds since the Unix epoch */
        time: number
        blocks: number
        entries: number
        /** Bytes of the entries */
        bytes: number
        /** Size of the store at the first block of the minute */
        store_bytes: number | null
      }[]
    }
  }
  /** Check that the process responds */
  'GET /healthz': { input: object; reply: object }
  /** Check that changes can be written and that reads succeed */
  'GET /readyz': {
    input: object
    reply: {
      /** Number of chains whose mirror is frozen, because the key has signed two histories; absent if 0 */
      frozen?: number
      /** The last scheduled verification; absent unless VERIFY_EVERY is set */
      verification?:
        | { result: 'pending' }
        | {
            result: 'passed'
            /** End of the verification, milliseconds since the Unix epoch */
            time: number
            /** End of the last verification that passed, milliseconds since the Unix epoch; absent if none has passed since the start of the node */
            last_passed?: number
            seconds: number
            /** Verified blocks; absent if the node requires tokens */
            blocks?: number
            /** Verified entries; absent if the node requires tokens */
            entries?: number
          }
        | {
            result: 'failed'
            time: number
            last_passed?: number
            seconds: number
            blocks?: number
            entries?: number
            /** The first difference; absent if the node requires tokens */
            finding?: string
          }
        | {
            result: 'unfinished'
            time: number
            last_passed?: number
            seconds: number
            /** The cause; absent if the node requires tokens */
            reason?: string
          }
    }
  }
  /** Cosign a checkpoint that continues the last cosigned checkpoint (C2SP tlog-witness) */
  'POST /api/ledgers/witness/add-checkpoint': { input: object; reply: string }
  /** Push blocks of the caller’s chain to a node that mirrors the chain; signed (RFC 9421) */
  'POST /api/ledgers/{serverid}': {
    input: { path: { serverid: string } }
    reply: {
      /** Stored blocks */
      size: number
      /** Blocks of the newest verified checkpoint */
      seen: number
    }
  }
}

// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `attachments`, by method and path. */
export interface AttachmentsCalls {
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
}

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
}

// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `databases`, by method and path. */
export interface DatabasesCalls {
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
}

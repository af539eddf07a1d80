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
  /** The process answers */
  'GET /healthz': { input: object; reply: { status: true } }
  /** Changes can be written */
  'GET /readyz': { input: object; reply: { status: true } }
}

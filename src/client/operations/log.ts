// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `log`, by method and path. */
export interface LogCalls {
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
}

// Made by scripts/make-client-types.ts. Do not edit.
/** Operations under the tag `operations`, by method and path. */
export interface OperationsCalls {
  /** The process answers */
  'GET /healthz': { input: object; reply: { status: true } }
  /** Changes can be written */
  'GET /readyz': { input: object; reply: { status: true } }
}

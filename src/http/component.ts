import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'

/** A Fastify instance whose handlers are typed by their TypeBox schemas. */
export type HttpApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** An error, before the component's `refusalReply` formats it as a reply. */
export interface Refusal {
  /** HTTP status, 400..599. */
  readonly status: number
  /** Stable error code, e.g. `ITEM_NOT_FOUND`. */
  readonly code: string
  /** One sentence. Never contains a secret, a stack or a query string. */
  readonly message: string
  /** Value of the header `Allow`, for status 405. */
  readonly allow?: readonly string[]
  /** Value of the header `WWW-Authenticate`, for status 401 and 403. */
  readonly challenge?: string
}

export interface RefusalReply {
  readonly contentType: string
  readonly body: string
}

export interface HttpLimits {
  /** Maximum length of a request body; longer bodies get 413. */
  readonly bodyBytesMax: number
  /** Maximum bytes of all long bodies together; above this, requests get 503. 256 MiB by default. */
  readonly bodiesBytesMax?: number
  /** Maximum milliseconds from the first to the last byte of a request. */
  readonly requestTimeoutMs: number
  /** Maximum number of open connections; 1,000 by default. */
  readonly socketsMax?: number
}

/**
 * A part of daicho with its own HTTP listener, e.g. the ledger. `startListener` adds limits, error replies,
 * guards and logging.
 */
export interface HttpComponent {
  /** The name in `--only`, in the output of `--json` and in the logs. */
  readonly name: string
  readonly limits: HttpLimits
  /** Whether to refuse requests from pages of other sites (`cross-origin-guard.ts`). */
  readonly sameOriginOnly: boolean
  /** Maps the error codes of the component's services to HTTP statuses. */
  readonly statusOf: Readonly<Record<string, number>>
  /** Codes with status 503 that need an operator. Such refusals are logged as errors, not as warnings. */
  readonly alarms?: ReadonlySet<string>
  /** Codes whose refusals have `Retry-After`, because the same request may succeed after a second. */
  readonly retried?: ReadonlySet<string>
  /** Returns the reply for `refusal`, in the component's error format. */
  refusalReply(refusal: Refusal): RefusalReply
  /** Adds routes to `app`. Called once, before the listener accepts connections. */
  register(app: HttpApp): Promise<void>
  /**
   * Handles a request to upgrade to WebSocket, after the guards have accepted the request. A thrown error becomes the
   * reply. Without this method, the header `Upgrade` is ignored.
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  /** Called after the last reply. */
  close?(): Promise<void>
}

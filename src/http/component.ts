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

/** Describes an error to the client, in the shape of the component. */
export interface Refusal {
  /** HTTP status, 400..599. */
  readonly status: number
  /** Stable, e.g. `ITEM_NOT_FOUND`. */
  readonly code: string
  /** One sentence. Never contains a secret, a stack or a query string. */
  readonly message: string
  /** Of a 405: value of the header `Allow`. */
  readonly allow?: readonly string[]
}

export interface RefusalReply {
  readonly contentType: string
  readonly body: string
}

/** Limits of a listener. */
export interface HttpLimits {
  /** Maximum request body, else 413. */
  readonly bodyBytesMax: number
  /** Memory budget of all long bodies, else 503; 256 MiB by default. */
  readonly bodiesBytesMax?: number
  /** Memory budget of all long replies to slow connections, else 503; characters or bytes, 256 Mi by default. */
  readonly repliesMax?: number
  /** Maximum time from the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** Maximum number of open connections; 1,000 by default. */
  readonly socketsMax?: number
}

/**
 * One HTTP program of daicho, on a listener of its own. `startListener` adds limits, error replies, guards and
 * logging.
 */
export interface HttpComponent {
  /** The name in `--only`, in `--json` and in the logs. */
  readonly name: string
  readonly defaultPort: number
  readonly limits: HttpLimits
  /** Whether requests of other sites' pages are refused (`cross-origin-guard.ts`). */
  readonly sameOriginOnly: boolean
  /** The HTTP status of each error code of its services. */
  readonly statusOf: Readonly<Record<string, number>>
  /** Codes that need an operator: logged as errors although their status is 503. */
  readonly alarms?: ReadonlySet<string>
  /** Returns a refusal in the component's shape. */
  refusalReply(refusal: Refusal): RefusalReply
  /** Adds routes to `app`; called once, before it listens. */
  register(app: HttpApp): Promise<void>
  /**
   * Handles a connection whose request asks for another protocol and has passed the guards. Errors refuse the
   * request. Without this method `Upgrade` is ignored.
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  /** Called after the last request was answered. */
  close?(): Promise<void>
}

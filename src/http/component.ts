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

/** A Fastify instance (or plugin scope) whose handlers are typed by their TypeBox schemas. */
export type HttpApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** A request that is not granted: what the client is told, in whichever shape its component has. */
export interface Refusal {
  /** HTTP status, 400..599. */
  readonly status: number
  /** Stable code for programs, e.g. `ITEM_NOT_FOUND`. */
  readonly code: string
  /** One sentence for people. Never holds a secret, a stack or a query string. */
  readonly message: string
  /** Of a 405: the methods of the path, for the header `Allow`. */
  readonly allow?: readonly string[]
}

/** The bytes of a refusal, for the moments when no reply object exists (a broken request line). */
export interface RefusalReply {
  readonly contentType: string
  readonly body: string
}

/** What a listener promises to bear, and where it says no. */
export interface HttpLimits {
  /** Longest request body in bytes; a longer one is refused with 413. */
  readonly bodyBytesMax: number
  /** Bytes of long bodies that are held at a time, more are refused with 503; 256 MiB when absent. */
  readonly bodiesBytesMax?: number
  /**
   * Characters and bytes of long replies that wait for slow connections, more are refused with 503;
   * 256 Mi when absent.
   */
  readonly repliesMax?: number
  /** Longest time from the first byte of a request to its last, milliseconds. */
  readonly requestTimeoutMs: number
  /** Maximum number of open connections; 1,000 when absent. */
  readonly socketsMax?: number
}

/**
 * One HTTP program of daicho, on a listener of its own.
 *
 * `startListener` builds the app around it: limits, error replies in the component's shape, guards
 * and logging are the same for all; only what stands here differs.
 */
export interface HttpComponent {
  /** The name in `--only`, in `--json` and in the logs. */
  readonly name: string
  /** The port when none is chosen. */
  readonly defaultPort: number
  readonly limits: HttpLimits
  /** Whether browsers of other sites must be kept out (see `cross-origin-guard.ts`). */
  readonly sameOriginOnly: boolean
  /** The HTTP status of each code of a `CodedError` that its services throw. */
  readonly statusOf: Readonly<Record<string, number>>
  /** Codes that somebody must do something about: logged as errors although their status is 503. */
  readonly alarms?: ReadonlySet<string>
  /** A refusal in the component's own shape. */
  refusalReply(refusal: Refusal): RefusalReply
  /** Mounts everything on `app`; called once, before it listens. */
  register(app: HttpApp): Promise<void>
  /**
   * Takes over a connection whose request asks for another protocol; the guards have let it pass.
   * What it throws refuses the request. Without this, `Upgrade` is not looked at.
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  /** Lets go of what is held open, after the last request was answered. */
  close?(): Promise<void>
}

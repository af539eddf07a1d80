import { signal } from '@preact/signals'
import { ClientError, LedgerClient, type Operations, type Read } from '../../../client/index.ts'
import { type Renew, Session, type SessionState } from './session.ts'

export const sessionState = signal<SessionState>('open')

/** The base URL of the node: the URL of the page without its last segment. */
export const base = new URL('.', location.href).href

let account: Renew | null = null

/** Uses the tokens of an account of an issuer for all requests of the page. */
export function useAccount(renew: Renew): void {
  account = renew
}

const session = new Session({
  fetch: (input, init) => fetch(input, init),
  base,
  now: () => performance.now(),
  findRenewal: () => account,
  onState: (state) => {
    // Once the state is `ended`, it stays so, because the user must sign in again by reloading the page.
    if (sessionState.peek() !== 'ended') sessionState.value = state
  },
})

/** Returns a port through which a worker gets the token of each request; null without an account. */
export function tokenPort(): MessagePort | null {
  if (account === null) return null
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = () => {
    session.token().then(
      (token) => port1.postMessage(token),
      () => port1.postMessage(null),
    )
  }
  return port2
}

/** Longer than usual: a user sees that the page is loading, and can leave it. */
const TIMEOUT_MS = 120_000
/** A client for the node that serves this page. */
export const ledger = new LedgerClient(base, { fetch: session.fetch, timeoutMs: TIMEOUT_MS })
/** A client that reports failures at once, for requests whose failure the page shows as a state of the node. */
export const statusClient = new LedgerClient(base, { fetch: session.fetch, retries: 0 })

/** The name of an item, also of a deleted one. */
export interface ItemName {
  readonly db: string
  readonly id: string
}

/** A revision of an item with its etag. */
export type ReadItem = Read<Record<string, unknown>>

export type ListedBlock = Operations['GET /api/ledgers']['reply']['ledgers'][number]
export type ListedEntry = ListedBlock['body'][number]

/** Returns at most `limit` blocks, starting at height `from`. Errors: ClientError. */
export async function readBlocks(
  from: number,
  limit: number,
  signal: AbortSignal,
): Promise<readonly ListedBlock[]> {
  const serverid = `${await ledger.serverId({ signal })}`
  const query = { serverid, offset: from, limit }
  return (await ledger.request('GET /api/ledgers', { query }, { signal })).ledgers
}

type ReadyReply = Operations['GET /readyz']['reply']
/** The result of the last scheduled verification that the node ran. */
export type ScheduledResult = NonNullable<ReadyReply['verification']>

export interface Readiness {
  /** Reason why the node accepts no changes, or null. */
  readonly refusal: ClientError | null
  /** Null if the node has no scheduled verification. */
  readonly verification: ScheduledResult | null
}

/** Returns the readiness of the node. All members are null if the node does not answer. */
export async function readReadiness(signal: AbortSignal): Promise<Readiness> {
  try {
    const { verification = null } = await statusClient.request('GET /readyz', {}, { signal })
    return { refusal: null, verification }
  } catch (error) {
    const isRefusal = error instanceof ClientError && error.status === 503
    return { refusal: isRefusal ? error : null, verification: null }
  }
}

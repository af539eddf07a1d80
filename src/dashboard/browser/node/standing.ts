import { signal } from '@preact/signals'
import { ClientError, type Operations } from '../../../client/index.ts'
import { ledger, sessionState, writesRefused } from './ledger.ts'

type PeersReply = Operations['GET /api/config/peers']['reply']

/** A chain of another node that is mirrored here, and how it stands with it. */
export type Peer = PeersReply['peers'][number]
/** That a key has signed two histories. */
export type Evidence = NonNullable<Peer['evidence']>

/** What the node said last of itself and of other nodes. */
export interface Standing {
  /** `hidden`: who is logged in may not read them; an error: they could not be read this time. */
  readonly peers: readonly Peer[] | 'hidden' | ClientError
  /** That the node's own key has signed two histories. */
  readonly evidence: Evidence | null
  /** Why the node takes no changes now; null when it does. */
  readonly refusal: ClientError | null
}

/** Between two looks. Peers come forward without an entry of this node, so nothing else tells of it. */
const LOOK_MS = 3_000

/** Null until the node has said something. */
export const standing = signal<Standing | null>(null)

/** Keeps `standing` at what the node says while the page is seen, from now on. */
export function followStanding(): void {
  let stop = new AbortController()
  const start = () => {
    stop = new AbortController()
    void look(stop.signal)
  }
  document.addEventListener('visibilitychange', () => {
    stop.abort()
    if (document.visibilityState !== 'hidden') start()
  })
  start()
}

async function look(signal: AbortSignal): Promise<void> {
  while (!signal.aborted && sessionState.peek() !== 'ended') {
    const [told, refusal] = await Promise.all([peersTold(signal), writesRefused(signal)])
    if (!signal.aborted) standing.value = { ...told, refusal }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

/** What a session may not read, or a proxy holds back, is hidden: the rest of the page goes on. */
const HIDDEN: ReadonlySet<number> = new Set([401, 403, 404])

async function peersTold(signal: AbortSignal): Promise<Omit<Standing, 'refusal'>> {
  try {
    return await ledger.request('GET /api/config/peers', {}, { signal })
  } catch (error) {
    const failure = error instanceof ClientError ? error : new ClientError('UNREACHABLE', 0, '')
    return { peers: HIDDEN.has(failure.status) ? 'hidden' : failure, evidence: null }
  }
}

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ClientError, type FeedEntry, type Operations } from '../../../client/index.ts'
import { ledger, type Readiness, readReadiness, sessionState } from './ledger.ts'

/**
 * Functions that are called with each entry of the change feed, and with null after an interruption, when entries may
 * have been missed.
 */
const listeners = new Set<(change: FeedEntry | null) => void>()

function notify(change: FeedEntry | null): void {
  for (const listener of listeners) listener(change)
}

/** Whether the change feed is open. */
export const isLive = signal(false)

/** Delay between a change and the reload of a view, so that a burst of changes causes one reload. */
const PAUSE_MS = 250
/** Delay after a change before items are counted again, because counting a large database can take long. */
export const COUNT_PAUSE_MS = 5_000
const RETRY_MS = 3_000
/** Interval of requests that the token does not permit: for the change feed, and for the peers. */
const REFUSED_MS = 30_000

/**
 * Calls `start` now, and whenever the page becomes visible again. Aborts `signal` when the page is hidden. A hidden
 * page has no open connection, because browsers allow only six connections per node.
 */
async function whileVisible(start: (signal: AbortSignal, isFirst: boolean) => Promise<void>) {
  let stop = new AbortController()
  document.addEventListener('visibilitychange', () => {
    stop.abort()
    if (document.visibilityState === 'hidden') return
    stop = new AbortController()
    void start(stop.signal, false)
  })
  await start(stop.signal, true)
}

/** Subscribes to the change feed. Resolves when its start position is known, so that no later change is missed. */
export function followFeed(): Promise<void> {
  return whileVisible(async (signal, isFirst) => {
    signal.addEventListener('abort', () => {
      isLive.value = false
    })
    const since = await readStart(signal)
    void follow(since, signal)
    if (!isFirst) notify(null)
  })
}

/** Returns the position at which the change feed starts: the first entry of the last block. */
async function readStart(signal: AbortSignal): Promise<string> {
  try {
    const size = await ledger.size({ signal })
    // Entry 0 exists in every block. The feed repeats the other entries of the last block, which does no harm.
    return size === 0 ? 'start' : `${size - 1}.0`
  } catch {
    return 'now'
  }
}

async function follow(start: string, signal: AbortSignal): Promise<void> {
  let since = start
  while (!signal.aborted) {
    let waitMs = RETRY_MS
    try {
      isLive.value = true
      for await (const change of ledger.changes({ since, signal })) {
        notify(change)
        since = change.position
      }
    } catch (error) {
      if (signal.aborted) return
      isLive.value = false
      if (error instanceof ClientError && error.status === 403) waitMs = REFUSED_MS
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs))
    notify(null)
  }
}

/**
 * Calls `reload` within `pauseMs` after a change for which `concerns` returns true, and after an interruption of the
 * change feed.
 */
export function useChanges(
  concerns: (change: FeedEntry) => boolean,
  reload: () => void,
  pauseMs = PAUSE_MS,
): void {
  const now = useRef({ concerns, reload })
  now.current = { concerns, reload }
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const listener = (change: FeedEntry | null) => {
      if (change !== null && !now.current.concerns(change)) return
      timer ??= setTimeout(() => {
        timer = undefined
        now.current.reload()
      }, pauseMs)
    }
    listeners.add(listener)
    return () => {
      clearTimeout(timer)
      listeners.delete(listener)
    }
  }, [])
}

type PeersReply = Operations['GET /api/config/peers']['reply']

interface NodeStatus extends Readiness {
  /** The peers, `hidden` if the session may not read the peers, or the error of the request. */
  readonly peers: PeersReply['peers'] | 'hidden' | ClientError
  /** The proof that the node's own key has signed two histories. */
  readonly evidence: PeersReply['evidence']
}

/** Interval between requests for the state of the peers, which can change without an entry on this node. */
const POLL_MS = 3_000

/** The state of the peers and the readiness of the node, or null before the first reply. */
export const nodeStatus = signal<NodeStatus | null>(null)

/** Keeps `nodeStatus` up to date while the page is visible. */
export function followStatus(): void {
  void whileVisible(async (signal) => {
    let hidden: PeersStatus | null = null
    let hiddenUntil = 0
    while (!signal.aborted && sessionState.peek() !== 'ended') {
      if (performance.now() > hiddenUntil) hidden = null
      const [peers, ready]: [PeersStatus, Readiness] = await Promise.all([
        hidden ?? readPeers(signal),
        readReadiness(signal),
      ])
      if (hidden === null && peers.peers === 'hidden') {
        hidden = peers
        hiddenUntil = performance.now() + REFUSED_MS
      }
      if (!signal.aborted) nodeStatus.value = { ...peers, ...ready }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  })
}

/** HTTP statuses that mean that the session may not read the peers, or that a proxy blocks the request. */
const HIDDEN: ReadonlySet<number> = new Set([401, 403, 404])

type PeersStatus = Omit<NodeStatus, keyof Readiness>

async function readPeers(signal: AbortSignal): Promise<PeersStatus> {
  try {
    return await ledger.request('GET /api/config/peers', {}, { signal })
  } catch (error) {
    const failure = error instanceof ClientError ? error : new ClientError('UNREACHABLE', 0, '')
    return { peers: HIDDEN.has(failure.status) ? 'hidden' : failure, evidence: null }
  }
}

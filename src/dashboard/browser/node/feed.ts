import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Change } from '../../../client/index.ts'
import { chainSize, ledger } from './ledger.ts'

/** The entry that was recorded last, as far as this page was told. */
const latest = signal<Change | null>(null)
/** Grows when entries may have been missed. */
const gaps = signal(0)
/** Whether the changes are followed. */
export const isLive = signal(false)

/** Between two answers to changes that come thick and fast. */
const PAUSE_MS = 250
const RETRY_MS = 3_000

/**
 * Follows the changes of the node while the page is seen: a hidden page holds no connection, of which
 * browsers have six for each node. Resolves when the first view may be loaded.
 */
export async function followChanges(): Promise<void> {
  let stop = new AbortController()
  const start = async () => {
    stop = new AbortController()
    const since = await startOf(stop.signal)
    void follow(since, stop.signal)
  }
  document.addEventListener('visibilitychange', () => {
    stop.abort()
    isLive.value = false
    if (document.visibilityState === 'hidden') return
    void start().then(() => {
      gaps.value += 1
    })
  })
  await start()
}

/** Read before any view, so that nothing falls between what they show and the feed. */
async function startOf(signal: AbortSignal): Promise<string> {
  try {
    const size = await chainSize(signal)
    // Every block has a first entry; those of the last block come once more.
    return size === 0 ? 'start' : `${size - 1}.0`
  } catch {
    return 'now'
  }
}

async function follow(start: string, signal: AbortSignal): Promise<void> {
  let since = start
  while (!signal.aborted) {
    try {
      isLive.value = true
      for await (const change of ledger.changes({ since, signal })) {
        latest.value = change
        since = change.position
      }
    } catch {
      if (signal.aborted) return
      isLive.value = false
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    gaps.value += 1
  }
}

/** Calls `answer` soon after a change for which `concerns` holds, and when changes may have been missed. */
export function useChanges(concerns: (change: Change) => boolean, answer: () => void): void {
  const now = useRef({ concerns, answer })
  now.current = { concerns, answer }
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        now.current.answer()
      }, PAUSE_MS)
    }
    let isFirst = true
    const unfollow = [
      latest.subscribe((change) => {
        if (!isFirst && change !== null && now.current.concerns(change)) soon()
      }),
      gaps.subscribe(() => {
        if (!isFirst) soon()
      }),
    ]
    isFirst = false
    return () => {
      clearTimeout(timer)
      for (const leave of unfollow) leave()
    }
  }, [])
}

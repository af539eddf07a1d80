import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

/** What has come of loading. */
export type Loaded<Value> =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly error: unknown }
  | { readonly state: 'loaded'; readonly value: Value }

/**
 * What `load` gives, loaded when `key` changes and when the second result is called. What was loaded for
 * the same key stays until there is something newer.
 */
export function useLoaded<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
): readonly [Loaded<Value>, () => void] {
  const [result, setResult] = useState<{ key: string; loaded: Loaded<Value> } | null>(null)
  const [turn, setTurn] = useState(0)
  const now = useRef(load)
  now.current = load
  useEffect(() => {
    const stop = new AbortController()
    const done = (loaded: Loaded<Value>) => {
      if (!stop.signal.aborted) setResult({ key, loaded })
    }
    now.current(stop.signal).then(
      (value) => done({ state: 'loaded', value }),
      (error: unknown) => done({ state: 'failed', error }),
    )
    return () => stop.abort()
  }, [key, turn])
  const reload = useCallback(() => setTurn((before) => before + 1), [])
  return [result?.key === key ? result.loaded : { state: 'loading' }, reload]
}

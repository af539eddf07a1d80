import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

/** An action that the user starts, such as saving an item, with its state. */
export interface Action {
  readonly busy: boolean
  /** Error of the last run, or undefined if the last run succeeded. */
  readonly error: unknown
  /** Runs `act`. Resolves to true if `act` succeeded. */
  readonly run: (act: () => Promise<void>) => Promise<boolean>
}

export function useAction(): Action {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({
    busy: false,
    error: undefined,
  })
  return {
    ...state,
    run: async (act) => {
      setState({ busy: true, error: undefined })
      try {
        await act()
        setState({ busy: false, error: undefined })
        return true
      } catch (error) {
        setState({ busy: false, error })
        return false
      }
    },
  }
}

export type Loaded<Value> =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly error: unknown }
  | {
      readonly state: 'loaded'
      readonly value: Value
      /** Whether the value is being loaded again. */
      readonly isReloading?: boolean
    }

/**
 * Calls `load` when `key` changes, and when the returned function is called. While `load` runs again for the same key,
 * the last result stays.
 */
export function useLoaded<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
): readonly [Loaded<Value>, () => void] {
  const [result, setResult] = useState<{
    key: string
    version: number
    loaded: Loaded<Value>
  } | null>(null)
  const [version, setVersion] = useState(0)
  const now = useRef(load)
  now.current = load
  useEffect(() => {
    const stop = new AbortController()
    const done = (loaded: Loaded<Value>) => {
      if (!stop.signal.aborted) setResult({ key, version, loaded })
    }
    now.current(stop.signal).then(
      (value) => done({ state: 'loaded', value }),
      (error: unknown) => done({ state: 'failed', error }),
    )
    return () => stop.abort()
  }, [key, version])
  const reload = useCallback(() => setVersion((before) => before + 1), [])
  if (result?.key !== key) return [{ state: 'loading' }, reload]
  const { loaded } = result
  const isReloading = result.version !== version
  return [loaded.state === 'loaded' ? { ...loaded, isReloading } : loaded, reload]
}

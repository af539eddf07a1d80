import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** An action that the user starts, such as saving an item, with its state. */
export interface Action {
  readonly busy: boolean
  /** Error of the last run, or undefined if the last run succeeded. */
  readonly error: unknown
  /** Runs `act`. Resolves to true if `act` succeeded and its dialog or view is still open. */
  readonly run: (act: () => Promise<void>) => Promise<boolean>
}

export function useAction(): Action {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({
    busy: false,
    error: undefined,
  })
  const isOpen = useRef(true)
  useLayoutEffect(
    () => () => {
      isOpen.current = false
    },
    [],
  )
  return {
    ...state,
    run: async (act) => {
      setState({ busy: true, error: undefined })
      try {
        await act()
        setState({ busy: false, error: undefined })
        return isOpen.current
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
 * the last result stays. A call while `load` runs calls it again afterwards: under constant changes, a load that each change
 * interrupts would never end.
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
  const running = useRef<'none' | 'fresh' | 'stale'>('none')
  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const start = performance.now()
    running.current = 'fresh'
    const done = (loaded: Loaded<Value>) => {
      if (stop.signal.aborted) return
      setResult({ key, version, loaded })
      // A pause of the same time, so that a view that loads slowly does not keep the node busy.
      if (running.current === 'stale')
        timer = setTimeout(() => setVersion(version + 1), performance.now() - start)
      else running.current = 'none'
    }
    now.current(stop.signal).then(
      (value) => done({ state: 'loaded', value }),
      (error: unknown) => done({ state: 'failed', error }),
    )
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [key, version])
  const reload = useCallback(() => {
    if (running.current === 'none') setVersion((before) => before + 1)
    else running.current = 'stale'
  }, [])
  if (result?.key !== key) return [{ state: 'loading' }, reload]
  const { loaded } = result
  const isReloading = result.version !== version
  return [loaded.state === 'loaded' ? { ...loaded, isReloading } : loaded, reload]
}

/** Returns the last loaded value, also while the next one is loaded, and after loading has failed. */
export function useLast<Value>(loaded: Loaded<Value>): Value | null {
  const last = useRef<Value | null>(null)
  if (loaded.state === 'loaded') last.current = loaded.value
  return last.current
}

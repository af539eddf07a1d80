import { useState } from 'preact/hooks'

/** Something that a person sets off, once at a time. */
export interface Acting {
  readonly busy: boolean
  /** Of the last time; undefined when it went well. */
  readonly error: unknown
  /** Does `act`; resolves to whether it went well. */
  readonly run: (act: () => Promise<void>) => Promise<boolean>
}

/** Runs what a person sets off, and remembers how it went. */
export function useActing(): Acting {
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

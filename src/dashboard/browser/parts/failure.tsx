import type { JSX } from 'preact'
import { ClientError } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { sessionState } from '../node/ledger.ts'
import type { Loaded } from './loaded.ts'

/** What went wrong, for a person; the node's own words where it has some. */
export function failureText(error: unknown): string {
  if (sessionState.value === 'ended') return t().ended
  if (!(error instanceof ClientError)) return t().unreachable
  if (error.status === 0 && error.code !== 'NAME_INVALID') return t().unreachable
  return `${error.message} (${error.code})`
}

/** Says that something failed, and offers to do it again. */
export function Failure(props: { error: unknown; again?: () => void }): JSX.Element {
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>{t().failed}</strong> {failureText(props.error)}
      </p>
      {props.again !== undefined && (
        <button type="button" class="secondary small" onClick={props.again}>
          {t().tryAgain}
        </button>
      )}
    </div>
  )
}

/** What was loaded, shown by `children`; or that it is on its way, or failed. */
export function Waiting<Value>(props: {
  loaded: Loaded<Value>
  again: () => void
  children: (value: Value) => JSX.Element
}): JSX.Element {
  const { loaded, again, children } = props
  if (loaded.state === 'loaded') return children(loaded.value)
  if (loaded.state === 'failed') return <Failure error={loaded.error} again={again} />
  return (
    <p class="waiting" aria-busy="true" role="status">
      {t().loading}
    </p>
  )
}

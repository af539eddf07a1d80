import { signal } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { visible } from '../../../base/visible.js'
import { ClientError } from '../../../client/index.ts'
import { t } from '../language/language.ts'
import { sessionState } from '../node/ledger.ts'
import { route } from '../routing/address.ts'
import type { Loaded } from './hooks.ts'
import { Button } from './layout.tsx'

const PATHS = { tick: 'M3 8.5 6.5 12 13 4.5', cross: 'M4 4l8 8M12 4l-8 8' } as const

/** A tick or a cross, drawn because some fonts lack these characters. Screen readers read only the text beside it. */
export function Sign({ of }: { of: keyof typeof PATHS }): JSX.Element {
  return (
    <svg class="sign" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[of]} />
    </svg>
  )
}

const FILE_ERRORS: ReadonlySet<string> = new Set(['NotFoundError', 'NotReadableError'])

/** Returns the text to show for an error: the message of the node, if the node sent a message. */
export function formatFailure(error: unknown): string {
  if (sessionState.value === 'ended') return t().ended
  if (error instanceof DOMException && FILE_ERRORS.has(error.name)) return t().fileUnreadable
  if (!(error instanceof ClientError)) return t().unreachable
  if (error.code === 'TIMEOUT') return t().timedOut
  if (error.status === 0 && error.code !== 'NAME_INVALID') return t().unreachable
  return `${visible(error.message)} (${visible(error.code)})`
}

/** Whether `error` says that there is no such database. */
export function isUnknownDatabase(error: unknown): boolean {
  return error instanceof ClientError && error.code === 'DATABASE_NOT_FOUND'
}

/** A notice with a bold title. It is red unless `isMild`. */
export function Notice(props: {
  title: string
  isMild?: boolean
  children?: ComponentChildren
}): JSX.Element {
  return (
    <div class={props.isMild === true ? 'notice' : 'notice bad'}>
      <p>
        <strong>{props.title}</strong> {props.children}
      </p>
    </div>
  )
}

/** Shows an error, and a button to try again. */
export function FailureNotice(props: { error: unknown; again?: () => void }): JSX.Element {
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>{t().failed}</strong> {formatFailure(props.error)}
      </p>
      {props.again !== undefined && <Button text={t().tryAgain} act={props.again} />}
    </div>
  )
}

/** Shows a loaded value with `children`, the error of loading, or that the value is being loaded. */
export function Waiting<Value>(props: {
  loaded: Loaded<Value>
  again: () => void
  children: (value: Value) => JSX.Element | null
}): JSX.Element {
  const { loaded, again, children } = props
  if (loaded.state === 'loaded') {
    return (
      <div class={loaded.isReloading === true ? 'reloading' : ''}>{children(loaded.value)}</div>
    )
  }
  if (loaded.state === 'failed') return <FailureNotice error={loaded.error} again={again} />
  return <Loading />
}

export function Loading(): JSX.Element {
  return (
    <p class="waiting" aria-busy="true" role="status">
      {t().loading}
    </p>
  )
}

const message = signal<string | null>(null)
// A message belongs to the view of its action.
route.subscribe(() => {
  message.value = null
})

/** Shows a message about a completed action. */
export function showMessage(text: string): void {
  message.value = text
}

/** Shows the text that was passed to `showMessage`. Screen readers read the text aloud. */
export function Message(): JSX.Element {
  return (
    <div class="message" role="status">
      {message.value !== null && (
        <p class="notice good">
          {message.value}{' '}
          <button
            type="button"
            class="plain"
            aria-label={t().close}
            onClick={() => {
              message.value = null
            }}
          >
            <Sign of="cross" />
          </button>
        </p>
      )}
    </div>
  )
}

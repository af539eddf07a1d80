import type { ComponentChildren, JSX } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../language/language.ts'
import { Failure } from './notices.tsx'

export interface DialogProps {
  readonly title: string
  readonly close: () => void
  readonly submit: () => void
  readonly submitText: string
  readonly disabled?: boolean
  readonly busy: boolean
  readonly danger?: boolean
  readonly wide?: boolean
  /** Undefined if there was no error. */
  readonly error: unknown
  readonly children: ComponentChildren
}

/** A modal dialog. Escape closes the dialog, and Enter submits the form. */
export function Dialog(props: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    // Closing the dialog restores the previous focus.
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      class={props.wide === true ? 'wide' : ''}
      onCancel={(event) => {
        event.preventDefault()
        props.close()
      }}
    >
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault()
          if (!props.busy && props.disabled !== true) props.submit()
        }}
      >
        <h2 id={titleId}>{props.title}</h2>
        {props.children}
        {props.error !== undefined && <Failure error={props.error} />}
        <footer class="buttons">
          <button type="button" class="secondary" onClick={props.close}>
            {t().cancel}
          </button>
          <button
            type="submit"
            class={props.danger === true ? 'danger' : ''}
            disabled={props.disabled === true}
            aria-busy={props.busy}
          >
            {props.submitText}
          </button>
        </footer>
      </form>
    </dialog>
  )
}

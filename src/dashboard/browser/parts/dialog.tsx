import type { ComponentChildren, JSX } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../language/language.ts'
import { Failure } from './failure.tsx'

/** What a dialog is made of. */
export interface DialogProps {
  readonly title: string
  readonly close: () => void
  readonly submit: () => void
  readonly submitText: string
  readonly mayNot?: boolean
  readonly busy: boolean
  readonly danger?: boolean
  readonly wide?: boolean
  /** Undefined: nothing has gone wrong. */
  readonly error: unknown
  readonly children: ComponentChildren
}

/** A question in front of the page; Escape closes it, Enter answers it. */
export function Dialog(props: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    // Gives the keyboard back to where it was.
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
          if (!props.busy && props.mayNot !== true) props.submit()
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
            disabled={props.mayNot === true}
            aria-busy={props.busy}
          >
            {props.submitText}
          </button>
        </footer>
      </form>
    </dialog>
  )
}

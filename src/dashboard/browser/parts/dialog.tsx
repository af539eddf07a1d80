import type { ComponentChildren, JSX } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { useAction } from './hooks.ts'
import { Button, Field } from './layout.tsx'
import { FailureNotice, showMessage } from './notices.tsx'

/** The ends of a dialog. */
export interface DialogEnds {
  readonly close: () => void
  /** Called after the action has succeeded and the dialog is closed. */
  readonly done: () => void
}

/** A modal dialog with a form. Escape closes the dialog, and Enter submits the form. */
export function Dialog(
  props: DialogEnds & {
    title: string
    submitText: string
    /** Performs the action, and resolves to the message that reports it. */
    act: () => Promise<string>
    disabled?: boolean
    danger?: boolean
    wide?: boolean
    /** The name that the user must type to confirm. */
    confirm?: string
    children: ComponentChildren
  },
): JSX.Element {
  const { title, submitText, act, disabled, danger, wide, confirm, close, done, children } = props
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const [typed, setTyped] = useState('')
  const action = useAction()
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    // Closing the dialog restores the previous focus.
    return () => dialog?.close()
  }, [])
  const isDisabled = disabled === true || (confirm !== undefined && typed !== confirm)
  const submit = async () => {
    let message = ''
    const isDone = await action.run(async () => {
      message = await act()
    })
    if (!isDone) return
    close()
    done()
    showMessage(message)
  }
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      class={wide === true ? 'wide' : ''}
      onCancel={(event) => {
        event.preventDefault()
        close()
      }}
    >
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault()
          if (!action.busy && !isDisabled) void submit()
        }}
      >
        <h2 id={titleId}>{title}</h2>
        {children}
        {confirm !== undefined && (
          <Field label={t().typeName(confirm)} spellcheck={false} value={typed} change={setTyped} />
        )}
        {action.error !== undefined && <FailureNotice error={action.error} />}
        <footer class="buttons">
          <Button text={t().cancel} class="secondary" act={close} />
          <button
            type="submit"
            class={danger === true ? 'danger' : ''}
            disabled={isDisabled}
            aria-busy={action.busy}
          >
            {submitText}
          </button>
        </footer>
      </form>
    </dialog>
  )
}

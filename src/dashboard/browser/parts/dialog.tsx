import type { ComponentChildren, JSX } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { visible } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { mayLeave, useUnsaved } from '../routing/unsaved.ts'
import { useAction } from './hooks.ts'
import { Button, Field } from './layout.tsx'
import { FailureNotice, showMessage } from './notices.tsx'

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
    /** Whether the user has typed something that closing would lose. It cannot be changed while it is sent. */
    isChanged?: boolean
    danger?: boolean
    wide?: boolean
    /** The name that the user must type to confirm, as it is or as it is shown. */
    confirm?: string
    children: ComponentChildren
  },
): JSX.Element {
  const { title, submitText, act, disabled, danger, wide, confirm, close, done, children } = props
  useUnsaved(props.isChanged === true)
  const leave = () => (props.isChanged !== true || mayLeave()) && close()
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const [typed, setTyped] = useState('')
  const action = useAction()
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal() // Closing it restores the previous focus.
    return () => dialog?.close()
  }, [])
  const isConfirmed = confirm === undefined || [confirm, visible(confirm)].includes(typed)
  const isDisabled = disabled === true || !isConfirmed
  const submit = async () => {
    let message = ''
    const isDone = await action.run(async () => {
      message = await act()
    })
    // A closed dialog must not close the next one.
    if (isDone) {
      close()
      done()
    }
    if (message !== '') showMessage(message)
  }
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      class={wide === true ? 'wide' : ''}
      onCancel={(event) => {
        event.preventDefault()
        leave()
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
        <div inert={action.busy && props.isChanged === true}>{children}</div>
        {confirm !== undefined && (
          <Field label={t().typeName(confirm)} spellcheck={false} value={typed} change={setTyped} />
        )}
        {action.error !== undefined && <FailureNotice error={action.error} />}
        <footer class="buttons">
          <Button text={t().cancel} class="secondary" act={leave} />
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

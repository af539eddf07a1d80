import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { isoTime } from '../../../base/iso-time.ts'
import { visible } from '../../../base/visible.js'
import { formatTime, t } from '../language/language.ts'
import { databasesAt, formatRoute, toState } from '../routing/routes.ts'

/** The title of a view, its explanation, and its main button. */
export function ViewHead(props: {
  title: string
  text?: string
  children?: ComponentChildren
}): JSX.Element {
  const { title, text, children } = props
  return (
    <header class="head">
      {text === undefined ? (
        <h1 class="name">{visible(title)}</h1>
      ) : (
        <div>
          <h1>{title}</h1>
          <p>{text}</p>
        </div>
      )}
      {children}
    </header>
  )
}

/** The path to a view, which starts with a link to the databases. */
export function Trail(props: { past: number | null; children?: ComponentChildren }): JSX.Element {
  const { past, children } = props
  return (
    <nav class="trail" aria-label={t().databases}>
      <a href={formatRoute(databasesAt(toState(past)))}>{t().databases}</a>
      {children}
    </nav>
  )
}

/** A button. `subject` tells buttons with equal texts apart, for screen readers. */
export function Button(
  props: JSX.IntrinsicElements['button'] & { text: string; subject?: string; act: () => unknown },
): JSX.Element {
  const { text, subject, act, ...others } = props
  const label = subject === undefined ? {} : { 'aria-label': `${text}: ${visible(subject)}` }
  return (
    <button type="button" class="secondary small" onClick={() => void act()} {...label} {...others}>
      {text}
    </button>
  )
}

/**
 * A labelled input, with its value below it if the input does not show all of its characters. Calls `change` on every
 * input; use `onChange` for the value after the input.
 */
export function Field(
  props: { label: string; change?: (value: string) => void } & JSX.IntrinsicElements['input'],
): JSX.Element {
  const { label, change, ...input } = props
  const id = useId()
  const text = input.type === 'password' ? '' : `${input.value ?? ''}`
  return (
    <div>
      <label for={id}>{label}</label>
      <input
        id={id}
        autocomplete="off"
        autocapitalize="off"
        onInput={({ currentTarget }) => change?.(currentTarget.value)}
        {...input}
      />
      {visible(text) !== text && <small>{visible(text)}</small>}
    </div>
  )
}

/** A field for why a change is made, which its entries record. */
export function ReasonField(props: {
  reason: string
  change: (reason: string) => void
}): JSX.Element {
  return (
    <Field label={t().reasonField} maxLength={1_024} value={props.reason} change={props.change} />
  )
}

/** A form with one field that leads to another view. */
export function JumpForm(
  props: JSX.IntrinsicElements['input'] & {
    label: string
    button: string
    /** The text before the user changes it. */
    start?: string
    go: (text: string) => void
  },
): JSX.Element {
  const { label, button, start = '', go, ...input } = props
  const [text, setText] = useState(start)
  useEffect(() => setText(start), [start])
  return (
    <form
      class="inline jump"
      onSubmit={(event) => {
        event.preventDefault()
        go(text)
      }}
    >
      <Field label={label} value={text} change={setText} {...input} />
      <button type="submit" class="secondary" disabled={input.required === true && text === ''}>
        {button}
      </button>
    </form>
  )
}

export function Choice(props: {
  label: string
  title?: string
  value: string
  options: readonly (readonly [value: string, text: string])[]
  choose: (value: string) => void
}): JSX.Element {
  const { label, title = '', value, options, choose } = props
  const id = useId()
  return (
    <div>
      <label for={id} title={title}>
        {label}
      </label>
      <select id={id} value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

/** Names and actions of buttons. A button is disabled if its `go` is null. */
type PageButtons = readonly (readonly [text: string, go: (() => void) | null])[]

/** Content that is rendered only while it is open. */
export function Details(props: { summary: string; children: () => JSX.Element }): JSX.Element {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{props.summary}</summary>
      {isOpen && props.children()}
    </details>
  )
}

/** Buttons for the first, the previous, the next and the last page. */
export function Pages(props: {
  back: PageButtons
  forward: PageButtons
  children: ComponentChildren
}): JSX.Element {
  const show = (buttons: PageButtons) => (
    <span class="buttons">
      {buttons.map(([text, go]) => (
        <Button key={text} text={text} disabled={go === null} act={() => go?.()} />
      ))}
    </span>
  )
  return (
    <nav class="pages" aria-label={t().pages}>
      {show(props.back)}
      <span>{props.children}</span>
      {show(props.forward)}
    </nav>
  )
}

/** A row in a list of facts, with a name, an explanation and a value. */
export function Fact(props: {
  name: string
  hint?: string
  children: ComponentChildren
}): JSX.Element {
  return (
    <div class="fact">
      <dt>
        {props.name}
        {props.hint !== undefined && <small>{props.hint}</small>}
      </dt>
      <dd>{props.children}</dd>
    </div>
  )
}

/** A timestamp in milliseconds since the Unix epoch. */
export function Time({ at }: { at: number }): JSX.Element {
  const iso = isoTime(at)
  return <time dateTime={iso}>{iso.endsWith('Z') ? formatTime(at) : iso}</time>
}

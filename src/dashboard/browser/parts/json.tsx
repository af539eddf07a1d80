import type { JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { t } from '../language/language.ts'
import { type ParsedItem, parseItem } from '../text/json.ts'
import { Button, Fact } from './layout.tsx'
import { Sign } from './notices.tsx'

/** Maximum characters of JSON in a list. */
const SHORT = 160

/** `value` as JSON on one line, truncated. */
export function ShortJson(props: { value: unknown }): JSX.Element {
  return <code class="short">{truncate(JSON.stringify(props.value) ?? '')}</code>
}

/** Returns a string as text, and any other value as JSON, on one line, truncated. */
export function toShort(value: unknown): string | JSX.Element {
  return typeof value === 'string' ? truncate(value) : <ShortJson value={value} />
}

function truncate(text: string): string {
  return text.length > SHORT ? `${text.slice(0, SHORT)}…` : text
}

export function WholeJson(props: { value: unknown }): JSX.Element {
  return <LongText text={JSON.stringify(props.value, null, 2)} />
}

/** A multi-line text. A long text can be scrolled with the mouse and with the keyboard. */
export function LongText(props: { text: string }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable text must be reachable by keyboard
    <pre class="json" tabIndex={0}>
      <code>{props.text}</code>
    </pre>
  )
}

/** A fact that is an id or a key, with a button to copy it. */
export function CopiedFact(props: { text: string; label: string; hint?: string }): JSX.Element {
  const { text, label, ...hint } = props
  return (
    <Fact name={label} {...hint}>
      <span class="copied">
        <code>{text}</code>
        <CopyButton text={text} label={label} />
      </span>
    </Fact>
  )
}

/** A button that copies a text. Not shown if there is no clipboard: browsers provide it only on HTTPS and loopback. */
export function CopyButton(props: {
  text: string | (() => string)
  label: string
}): JSX.Element | null {
  const [isCopied, setCopied] = useState(false)
  if (!('clipboard' in navigator)) return null
  const { text, label } = props
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === 'string' ? text : text())
    setCopied(true)
  }
  return (
    <Button
      text={isCopied ? t().copied : t().copy}
      class="plain"
      aria-label={`${t().copy}: ${label}`}
      act={() => copy().catch(() => {})}
    />
  )
}

/** A field for the JSON of an item. Shows whether the JSON can be saved. */
export function ItemEditor(props: {
  text: string
  /** Id of the item, or null for a new item. */
  id: string | null
  change: (text: string) => void
}): JSX.Element {
  const [fieldId, hintId] = [useId(), useId()]
  const checked = parseItem(props.text, props.id)
  const isFine = 'item' in checked
  return (
    <div class="editor">
      <label for={fieldId}>{t().json}</label>
      <textarea
        id={fieldId}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        rows={Math.min(Math.max(props.text.split('\n').length + 1, 8), 24)}
        aria-invalid={!isFine}
        aria-describedby={hintId}
        value={props.text}
        onInput={({ currentTarget }) => props.change(currentTarget.value)}
      />
      <div class="editor-line">
        <small id={hintId} class={isFine ? 'fine' : 'wrong'} role="status">
          <Sign of={isFine ? 'tick' : 'cross'} />{' '}
          {isFine ? t().jsonValid : formatReason(checked, props.id)}
        </small>
        <Button
          text={t().format}
          disabled={!isFine}
          act={() => isFine && props.change(JSON.stringify(checked.item, null, 2))}
        />
      </div>
      <small>{props.id === null ? t().jsonHint : t().jsonHintEdit}</small>
    </div>
  )
}

function formatReason(checked: Exclude<ParsedItem, { item: unknown }>, id: string | null): string {
  switch (checked.reason) {
    case 'not-object':
      return t().jsonNotObject
    case 'id-not-text':
      return t().jsonIdNotText
    case 'id-changed':
      return t().jsonIdChanged(id ?? '')
    case 'json': {
      const { location } = checked
      const locationText =
        location === null ? '' : ` (${t().jsonLocation(location.line, location.column)})`
      return `${t().jsonFailures[checked.code]}${locationText}`
    }
  }
}

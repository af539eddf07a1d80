import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { t } from '../language/language.ts'

/** Characters of a text that a list shows. */
const SHORT = 160

/** `value` as JSON on one line, cut where it gets long. */
export function ShortJson(props: { value: unknown }): JSX.Element {
  const text = JSON.stringify(props.value) ?? ''
  const isLong = text.length > SHORT
  return <code class="short">{isLong ? `${text.slice(0, SHORT)}…` : text}</code>
}

/** `value` as JSON over several lines. */
export function WholeJson(props: { value: unknown }): JSX.Element {
  return <LongText text={JSON.stringify(props.value, null, 2)} />
}

/** A text over several lines; a long one is scrolled, also by the keyboard. */
export function LongText(props: { text: string }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <pre class="json" tabIndex={0}>
      <code>{props.text}</code>
    </pre>
  )
}

/** A text that is long and meant to be copied: an id, a key. */
export function Copied(props: { text: string; label: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    // Browsers offer it on HTTPS and loopback only.
    await navigator.clipboard?.writeText(props.text)
    setCopied(true)
  }
  return (
    <span class="copied">
      <code>{props.text}</code>
      {'clipboard' in navigator && (
        <button
          type="button"
          class="plain"
          aria-label={`${t().copy}: ${props.label}`}
          onClick={() => void copy().catch(() => {})}
        >
          {isCopied ? t().copied : t().copy}
        </button>
      )}
    </span>
  )
}

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { visible, visibleJson } from '../../../base/visible.js'
import { t } from '../language/language.ts'
import { Button, Fact } from './layout.tsx'

/** Maximum characters of JSON in a list. */
const SHORT = 160

/** `value` as JSON on one line, truncated. */
export function ShortJson(props: { value: unknown }): JSX.Element {
  const json = JSON.stringify(props.value) ?? ''
  return (
    <>
      <code class="short">{visibleJson(truncate(json))}</code>
      {markTruncation(json)}
    </>
  )
}

/** A string that could be taken for another value. */
const AMBIGUOUS = /^(?:$|["[{]|(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$)/

/** Returns a string as text, and any other value as JSON, on one line, truncated. */
export function toShort(value: unknown): JSX.Element {
  if (typeof value !== 'string' || AMBIGUOUS.test(value)) return <ShortJson value={value} />
  return (
    <>
      {visible(truncate(value))}
      {markTruncation(value)}
    </>
  )
}

function truncate(text: string): string {
  return text.length > SHORT ? text.slice(0, SHORT).replace(/[\ud800-\udbff]$/, '') : text
}

function markTruncation({ length }: string): JSX.Element | null {
  return length > SHORT ? <span class="soft"> … {t().characters(length)}</span> : null
}

export function WholeJson(props: { value: unknown }): JSX.Element {
  return <LongText text={visibleJson(JSON.stringify(props.value, null, 2))} />
}

/** Characters from which lines break anywhere: Chromium needs seconds to find the breaks of a word of this length. */
const VERY_LONG = 100_000

/** A multi-line text. A long text can be scrolled with the mouse and with the keyboard. */
export function LongText(props: { text: string }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable text must be reachable by keyboard
    <pre class={props.text.length < VERY_LONG ? 'json' : 'json very-long'} tabIndex={0}>
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

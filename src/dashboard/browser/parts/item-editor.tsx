import type { JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { JsonObject } from '../../../base/json.ts'
import { visible } from '../../../base/visible.js'
import type { CodeEditor } from '../editor/code-editor.ts'
import { t } from '../language/language.ts'
import { parseTyped, type TypedValue, toTyped } from '../text/conditions.ts'
import { type ParsedItem, parseItem } from '../text/json.ts'
import { Button, Field } from './layout.tsx'
import { Loading, Sign } from './notices.tsx'
import { TypedField } from './typed-field.tsx'

/** Fields for the content of an item, as JSON or as a form. Shows whether the item can be saved. */
export function ItemEditor(props: {
  text: string
  /** Id of the item, or null for a new item. */
  id: string | null
  /** The text with which the text is compared, or null. */
  original?: string | null
  change: (text: string) => void
}): JSX.Element {
  const { text, id, original = null, change } = props
  const hintId = useId()
  const [isForm, setForm] = useState(false)
  const checked = parseItem(text, id)
  const item = 'item' in checked ? checked.item : null
  // A field would drop line breaks.
  const fits = (value: unknown) =>
    typeof value === 'string' ? !/[\r\n]/.test(value) : typeof value !== 'object' || value === null
  const canBeForm = item !== null && Object.values(item).every(fits)
  return (
    <div class="editor">
      <div class="tabs">
        <Button text={t().asJson} aria-pressed={!isForm} act={() => setForm(false)} />
        <Button
          text={t().form}
          aria-pressed={isForm}
          disabled={!canBeForm && !isForm}
          act={() => setForm(true)}
        />
      </div>
      {isForm && original === null ? (
        <FlatForm start={item ?? {}} id={id} change={change} />
      ) : (
        <CodeField {...{ text, id, original, change }} />
      )}
      <div class="editor-line">
        <small id={hintId} class={item === null ? 'wrong' : 'fine'} role="status">
          <Sign of={item === null ? 'cross' : 'tick'} />{' '}
          {'item' in checked ? t().jsonValid : formatReason(checked, id)}
        </small>
        <Button
          text={t().format}
          disabled={item === null}
          act={() => change(JSON.stringify(item, null, 2))}
        />
      </div>
      <small>{id === null ? t().jsonHint : t().jsonHintEdit}</small>
    </div>
  )
}

interface CodeFieldProps {
  readonly text: string
  readonly id: string | null
  readonly original: string | null
  readonly change: (text: string) => void
}

/** The JSON in an editor, whose program is loaded when it is first needed, or in a plain field if it cannot be loaded. */
function CodeField({ text, id, original, change }: CodeFieldProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null)
  const editor = useRef<CodeEditor | null>(null)
  const [state, setState] = useState<'loading' | 'open' | 'failed'>('loading')
  /** Texts that the user has typed and that have not come back as `text` yet, oldest first. */
  const typed = useRef<string[]>([])
  const now = useRef({ text, change })
  now.current = { text, change }
  useEffect(() => {
    let isClosed = false
    import('../editor/code-editor.ts').then(
      ({ openCodeEditor }) => {
        if (isClosed || host.current === null) return
        editor.current = openCodeEditor(host.current, {
          text: now.current.text,
          label: t().json,
          accept: t().keepMine,
          reject: t().takeTheirs,
          check: (changed) => findProblem(changed, id),
          change: (changed) => {
            typed.current.push(changed)
            now.current.change(changed)
          },
        })
        editor.current.compareWith(original)
        setState('open')
      },
      () => setState('failed'),
    )
    return () => {
      isClosed = true
      editor.current?.close()
      editor.current = null
    }
  }, [])
  useEffect(() => {
    const echo = typed.current.indexOf(text)
    if (echo >= 0) typed.current.splice(0, echo + 1)
    else {
      editor.current?.setText(text)
      // The editor reports this text as typed.
      typed.current = []
    }
  }, [text])
  useEffect(() => editor.current?.compareWith(original), [original])
  if (state === 'failed') return <PlainField text={text} change={change} />
  return (
    <>
      {state === 'loading' && <Loading />}
      <div ref={host} class="code-field" />
    </>
  )
}

function PlainField(props: { text: string; change: (text: string) => void }): JSX.Element {
  return (
    <textarea
      aria-label={t().json}
      spellcheck={false}
      rows={16}
      value={props.text}
      onInput={({ currentTarget }) => props.change(currentTarget.value)}
    />
  )
}

function findProblem(text: string, id: string | null) {
  const checked = parseItem(text, id)
  if ('item' in checked) return null
  const code = checked.reason === 'json' ? checked.code : checked.reason
  return { code, message: formatReason(checked, id) }
}

interface Member extends TypedValue {
  readonly name: string
}

const TYPES = ['text', 'number', 'boolean', 'null'] as const

/** A form with a field for each member of an item without lists and objects. */
function FlatForm(props: {
  start: JsonObject
  /** Id of the item, which cannot be changed; null for a new item. */
  id: string | null
  change: (text: string) => void
}): JSX.Element {
  const { id, change } = props
  const [members, setMembers] = useState<readonly Member[]>(() =>
    Object.entries(props.start).map(([name, value]) => ({ name, ...toTyped(value) })),
  )
  const [name, setName] = useState('')
  const set = (list: readonly Member[]) => {
    setMembers(list)
    change(formatMembers(list))
  }
  return (
    <>
      {members.map((member, at) =>
        id !== null && member.name === 'id' ? null : (
          <fieldset key={member.name} class="fields">
            <legend>{visible(member.name)}</legend>
            <TypedField
              types={TYPES}
              value={member}
              isWrong={parseTyped(member) === undefined}
              change={(changed) => set(members.toSpliced(at, 1, { ...member, ...changed }))}
            />
            <Button
              text={t().remove}
              subject={member.name}
              act={() => set(members.toSpliced(at, 1))}
            />
          </fieldset>
        ),
      )}
      <div class="inline">
        <Field label={t().newMember} value={name} change={setName} />
        <Button
          text={t().addMember}
          disabled={name === '' || members.some((member) => member.name === name)}
          act={() => {
            set([...members, { name, type: 'text', text: '' }])
            setName('')
          }}
        />
      </div>
    </>
  )
}

/** Returns the JSON of an item. A value that is not of its type makes the JSON malformed, so that it is not saved. */
function formatMembers(members: readonly Member[]): string {
  const lines = members.map((member) => {
    const value = parseTyped(member)
    const text = value === undefined ? `?${member.text}` : JSON.stringify(value)
    return `\n  ${JSON.stringify(member.name)}: ${text}`
  })
  return `{${lines.join()}\n}`
}

function formatReason(checked: Exclude<ParsedItem, { item: unknown }>, id: string | null): string {
  switch (checked.reason) {
    case 'not-object':
      return t().jsonNotObject
    case 'id-not-text':
      return t().jsonIdNotText
    case 'id-invalid':
      return t().jsonIdInvalid
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

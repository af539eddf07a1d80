import type { JSX } from 'preact'
import { useId } from 'preact/hooks'
import { type Checked, checkedItem } from '../json/checked.ts'
import { t } from '../language/language.ts'
import { Sign } from './sign.tsx'

/** The JSON of an item in a field that says at once whether it can be saved. */
export function ItemEditor(props: {
  text: string
  /** Null for a new item. */
  id: string | null
  change: (text: string) => void
}): JSX.Element {
  const [fieldId, hintId] = [useId(), useId()]
  const checked = checkedItem(props.text, props.id)
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
          {isFine ? t().jsonFine : whyText(checked, props.id)}
        </small>
        <button
          type="button"
          class="secondary small"
          disabled={!isFine}
          onClick={() => isFine && props.change(JSON.stringify(checked.item, null, 2))}
        >
          {t().format}
        </button>
      </div>
      <small>{props.id === null ? t().jsonHint : t().jsonHintEdit}</small>
    </div>
  )
}

function whyText(checked: Exclude<Checked, { item: unknown }>, id: string | null): string {
  switch (checked.why) {
    case 'not-object':
      return t().jsonNotObject
    case 'id-not-text':
      return t().jsonIdNotText
    case 'id-changed':
      return t().jsonIdChanged(id ?? '')
    case 'json': {
      const { place } = checked
      const where = place === null ? '' : ` (${t().jsonPlace(place.line, place.column)})`
      return `${t().jsonFailures[checked.code]}${where}`
    }
  }
}

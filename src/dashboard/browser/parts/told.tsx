import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { t } from '../language/language.ts'
import { Sign } from './sign.tsx'

const told = signal<string | null>(null)

/** Says shortly what was done. */
export function tell(text: string): void {
  told.value = text
}

/** Where it is said; screen readers read it out. */
export function Told(): JSX.Element {
  return (
    <div class="told" role="status">
      {told.value !== null && (
        <p class="notice good">
          {told.value}{' '}
          <button
            type="button"
            class="plain"
            aria-label={t().close}
            onClick={() => {
              told.value = null
            }}
          >
            <Sign of="cross" />
          </button>
        </p>
      )}
    </div>
  )
}

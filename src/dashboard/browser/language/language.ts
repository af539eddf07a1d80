import { computed, effect, signal } from '@preact/signals'
import { english, type Texts } from './english.ts'
import { japanese } from './japanese.ts'

const LANGUAGES: Readonly<Record<string, Texts>> = { en: english, ja: japanese }

/** The languages of the page, by their tags, as they call themselves. */
export const LANGUAGE_NAMES: readonly (readonly [string, string])[] = [
  ['en', 'English'],
  ['ja', '日本語'],
]

const KEPT = 'daicho.language'

/** The tag of the language in use. */
export const language = signal(firstLanguage())
const texts = computed(() => LANGUAGES[language.value] ?? english)

/** The texts in the language in use; views that read them follow a change of it. */
export function t(): Texts {
  return texts.value
}

/** Keeps the choice, and tells the browser what language the page is in, from now on. */
export function keepLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value
  })
}

/** Speaks the language of `tag` from now on, also the next time. */
export function chooseLanguage(tag: string): void {
  language.value = tag
  try {
    localStorage.setItem(KEPT, tag)
  } catch {
    // A browser that keeps nothing asks again.
  }
}

function firstLanguage(): string {
  const wanted = [kept(), ...navigator.languages.map((tag) => tag.slice(0, 2))]
  return wanted.find((tag) => tag !== null && tag in LANGUAGES) ?? 'en'
}

function kept(): string | null {
  try {
    return localStorage.getItem(KEPT)
  } catch {
    return null
  }
}

/** The moment `timestamp`, milliseconds since the Unix epoch, as people of the language write it. */
export function timeText(timestamp: number): string {
  return new Date(timestamp).toLocaleString(language.value, {
    dateStyle: 'medium',
    timeStyle: 'medium',
  })
}

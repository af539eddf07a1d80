import { computed, effect, signal } from '@preact/signals'
import { english, type Texts } from './english.ts'
import { japanese } from './japanese.ts'

const LANGUAGES: Readonly<Record<string, Texts>> = { en: english, ja: japanese }

/** Languages of the page: tags and names. */
export const LANGUAGE_NAMES: readonly (readonly [string, string])[] = [
  ['en', 'English'],
  ['ja', '日本語'],
]

const STORAGE_KEY = 'daicho.language'

export const language = signal(firstLanguage())
const texts = computed(() => LANGUAGES[language.value] ?? english)

/** Texts in the current language. Views that use them are updated when it changes. */
export function t(): Texts {
  return texts.value
}

/** Keeps the `lang` attribute of the page up to date. */
export function applyLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value
  })
}

/** Changes the language and stores the choice. */
export function chooseLanguage(tag: string): void {
  language.value = tag
  try {
    localStorage.setItem(STORAGE_KEY, tag)
  } catch {
    // Without storage, the next visit uses the language of the browser.
  }
}

function firstLanguage(): string {
  const wanted = [stored(), ...navigator.languages.map((tag) => tag.slice(0, 2))]
  return wanted.find((tag) => tag !== null && tag in LANGUAGES) ?? 'en'
}

function stored(): string | null {
  try {
    return localStorage.getItem(STORAGE_KEY)
  } catch {
    return null
  }
}

/** A timestamp, milliseconds since the Unix epoch, in the current language. */
export function timeText(timestamp: number): string {
  return new Date(timestamp).toLocaleString(language.value, {
    dateStyle: 'medium',
    timeStyle: 'medium',
  })
}

/** The name of a method in the current language. */
export function methodText(method: string): string {
  const names: Readonly<Record<string, string>> = t().methods
  return names[method] ?? method
}

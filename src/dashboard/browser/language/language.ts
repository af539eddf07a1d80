import { computed, effect, signal } from '@preact/signals'
import { visible } from '../../../base/visible.js'
import { readStored, writeStored } from '../node/storage.ts'
import { english, type Texts } from './english.ts'
import { japanese } from './japanese.ts'

/** Languages of the page by their tags. */
export const LANGUAGES: Readonly<Record<string, { readonly name: string; texts: Texts }>> = {
  en: { name: 'English', texts: withVisibleValues(english) },
  ja: { name: '日本語', texts: withVisibleValues(japanese) },
}

/** Returns `texts` with functions that show names, ids and other values of users with `visible`. */
function withVisibleValues(texts: Texts): Texts {
  const wrapped = Object.entries(texts).map(([name, text]) => {
    if (typeof text !== 'function') return [name, text]
    const show = (value: unknown) => (typeof value === 'string' ? visible(value) : value)
    return [name, (...values: unknown[]) => Reflect.apply(text, null, values.map(show))]
  })
  return Object.fromEntries(wrapped)
}

const STORAGE_KEY = 'daicho.language'

export const language = signal(firstLanguage())
const texts = computed(() => LANGUAGES[language.value]?.texts ?? english)

/** Returns the texts in the current language. Views that call `t` are rendered again when the language changes. */
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
  writeStored(STORAGE_KEY, tag)
}

function firstLanguage(): string {
  const stored = readStored(STORAGE_KEY) ?? ''
  const wanted = [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))]
  return wanted.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? 'en'
}

/** Returns the locale for dates and numbers: the browser's, independent of the language of the texts. */
function locale(): string | undefined {
  // Chromium without a configured locale reports `en-US@posix`, which `Intl` rejects.
  return navigator.languages[0]?.split('@')[0]
}

/** Formats milliseconds since the Unix epoch as date and time in the browser's time zone. */
export function formatTime(timestamp: number): string {
  return new Date(timestamp).toLocaleString(locale(), {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: 'numeric',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  })
}

/** Formats milliseconds since the Unix epoch as hour and minute in the browser's time zone. */
export function formatClock(
  timestamp: number,
  options: Pick<Intl.DateTimeFormatOptions, 'timeZoneName'> = {},
): string {
  return new Date(timestamp).toLocaleTimeString(locale(), {
    hour: 'numeric',
    minute: '2-digit',
    ...options,
  })
}

/** Formats a number with all its digits. */
export function formatNumber(value: number): string {
  return value.toLocaleString(locale(), { maximumFractionDigits: 20 })
}

const UNITS = ['kB', 'MB', 'GB', 'TB'] as const

/** Formats a number of bytes with a decimal unit, such as kB. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length)
  const value = (bytes / 1_000 ** power).toLocaleString(locale(), {
    maximumFractionDigits: power === 0 ? 0 : 1,
  })
  return `${value} ${UNITS[power - 1] ?? 'B'}`
}

/** Returns the name of a method in the current language. */
export function formatMethod(method: string): string {
  const names: Readonly<Record<string, string>> = t().methods
  return names[method] ?? method
}

// Translates a static page. The page contains the English texts. The attribute `data-ja` of an element has its
// Japanese text, and `data-ja-<name>` has the Japanese value of its attribute <name>. Scripts call `t` for their own
// texts.

const STORAGE_KEY = 'daicho.language'
const ATTRIBUTES = ['placeholder', 'aria-label']

/** The tag of the current language: `en` or `ja`. */
export const language = chosenLanguage()

/** Returns the text in the current language. */
export const t = (english, japanese) => (language === 'ja' ? japanese : english)

/** Formats `instant`, any value that `new Date` accepts, in the current language. */
export const timeText = (instant) =>
  new Date(instant).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'medium' })

function chosenLanguage() {
  let stored = null
  try {
    stored = localStorage.getItem(STORAGE_KEY)
  } catch {
    // Storage is disabled, so the browser's language applies.
  }
  const preferred = [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))]
  return preferred.find((tag) => tag === 'en' || tag === 'ja') ?? 'en'
}

document.documentElement.lang = language
if (language === 'ja') {
  for (const element of document.querySelectorAll('[data-ja]')) {
    element.textContent = element.dataset.ja
  }
  for (const name of ATTRIBUTES) {
    for (const element of document.querySelectorAll(`[data-ja-${name}]`)) {
      element.setAttribute(name, element.getAttribute(`data-ja-${name}`))
    }
  }
}
const choice = document.querySelector('select.language')
if (choice !== null) {
  choice.value = language
  choice.addEventListener('change', () => {
    try {
      localStorage.setItem(STORAGE_KEY, choice.value)
    } catch {
      return
    }
    location.reload()
  })
}

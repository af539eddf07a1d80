// The language of a page that is sent as it is written: English stands in the page, Japanese beside it
// in `data-ja`, and for an attribute in `data-ja-<attribute>`. Scripts of pages ask `t`.

const KEPT = 'daicho.language'
const ATTRIBUTES = ['placeholder', 'aria-label']

/** The tag of the language in use. */
export const language = chosen()

/** The text in the language in use. */
export const t = (english, japanese) => (language === 'ja' ? japanese : english)

/** The moment of `instant`, anything that `Date` takes, as people of the language write it. */
export const timeText = (instant) =>
  new Date(instant).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'medium' })

function chosen() {
  let kept = null
  try {
    kept = localStorage.getItem(KEPT)
  } catch {
    // A browser that keeps nothing asks for its own language each time.
  }
  const wanted = [kept, ...navigator.languages.map((tag) => tag.slice(0, 2))]
  return wanted.find((tag) => tag === 'en' || tag === 'ja') ?? 'en'
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
      localStorage.setItem(KEPT, choice.value)
    } catch {
      return
    }
    location.reload()
  })
}

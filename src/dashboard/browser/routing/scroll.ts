/** Time from the last scroll event until the position is saved, because browsers limit changes of the history. */
const SETTLED_MS = 100
/** Time after a navigation during which the position is restored whenever the page grows, because lists load slowly. */
const RESTORE_MS = 30_000

let stop = () => {}
/** Hash of the address whose view is shown. After a navigation, the former view is still shown for a moment. */
let shownHash = ''

/** Remembers the scroll position of each entry of the browser's history. */
export function rememberScroll(): void {
  history.scrollRestoration = 'manual'
  let timer: ReturnType<typeof setTimeout> | undefined
  const save = () => {
    if (location.hash === shownHash) history.replaceState({ y: scrollY }, '')
  }
  addEventListener('scroll', () => {
    clearTimeout(timer)
    timer = setTimeout(save, SETTLED_MS)
  })
  // A click saves the position at once, because it can leave the view before the timer fires.
  addEventListener('click', save, { capture: true })
  // Restoring ends when the user scrolls or types, because from then on, the page must not move by itself.
  for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown']) {
    addEventListener(event, () => stop(), { passive: true })
  }
}

/** Scrolls to the position that was saved for this entry of the history, or to the start of the page. */
export function restoreScroll(page: HTMLElement): void {
  stop()
  shownHash = location.hash
  const y = Number(Object(history.state).y ?? 0)
  scrollTo(0, y)
  if (y === 0) return
  const observer = new ResizeObserver(() => scrollTo(0, y))
  observer.observe(page)
  const timer = setTimeout(() => observer.disconnect(), RESTORE_MS)
  stop = () => {
    observer.disconnect()
    clearTimeout(timer)
  }
}

/** Delay after the last scroll event; browsers limit the number of changes of the history. */
const SETTLED_MS = 100
/** How long a page is restored after a navigation, while its lists are loaded. */
const RESTORE_MS = 30_000

let stop = () => {}

/** Remembers the scroll position of each entry of the browser's history. */
export function rememberScroll(): void {
  history.scrollRestoration = 'manual'
  let timer: ReturnType<typeof setTimeout> | undefined
  const save = () => history.replaceState({ y: scrollY }, '')
  addEventListener('scroll', () => {
    clearTimeout(timer)
    timer = setTimeout(save, SETTLED_MS)
  })
  // A click can leave the view before the timer.
  addEventListener('click', save, { capture: true })
  addEventListener('hashchange', () => clearTimeout(timer))
  // The user scrolls or types: the page must not move by itself.
  for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown']) {
    addEventListener(event, () => stop(), { passive: true })
  }
}

/** Scrolls to the position of this entry of the history: to the start of the page if it is new. */
export function restoreScroll(page: HTMLElement): void {
  stop()
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

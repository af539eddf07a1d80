import { signal } from '@preact/signals'
import { formatRoute, parseRoute, type Route } from './routes.ts'
import { mayLeave } from './unsaved.ts'

/** The current view. */
export const route = signal<Route>(parseRoute(''))

/** Updates `route` whenever the address changes. */
export function followAddress(): void {
  const follow = () => {
    const here = formatRoute(route.peek())
    if (location.hash === here) return
    if (mayLeave()) route.value = parseRoute(location.hash)
    else history.pushState(null, '', here)
  }
  addEventListener('hashchange', follow)
  route.value = parseRoute(location.hash)
}

/** Shows the view `to`. Sets `route` before `hashchange` does, so that a quick next action starts from the new view. */
export function goTo(to: Route): void {
  if (!mayLeave()) return
  location.hash = formatRoute(to)
  route.value = to
}

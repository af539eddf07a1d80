import { signal } from '@preact/signals'
import { formatRoute, parseRoute, type Route } from './routes.ts'

/** The current view. */
export const route = signal<Route>(parseRoute(''))

/** Updates `route` whenever the address changes. */
export function followAddress(): void {
  const follow = () => {
    route.value = parseRoute(location.hash)
  }
  addEventListener('hashchange', follow)
  follow()
}

/** Shows the view `to`. Sets `route` before `hashchange` does, so that a quick next action starts from the new view. */
export function goTo(to: Route): void {
  location.hash = formatRoute(to)
  route.value = to
}

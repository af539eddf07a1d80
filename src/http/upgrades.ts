import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuseSocket } from './broken-request.ts'
import type { HttpComponent } from './component.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { refusalOf } from './refusal.ts'
import { formHeadersOf, hostsRefusal } from './request-form.ts'

/**
 * Hands requests for another protocol to `component`, if it takes them: such requests reach no route
 * and none of its hooks, so the guards stand here once more.
 */
export function answerUpgrades(
  component: HttpComponent,
  server: Server,
  publicHosts: ReadonlySet<string>,
): void {
  const { upgrade } = component
  if (upgrade === undefined) return
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const headers = formHeadersOf(request)
    const refusal =
      hostsRefusal(headers, request.httpVersion) ??
      (component.sameOriginOnly
        ? crossOriginRefusal(request.url ?? '', headers, publicHosts)
        : null)
    if (refusal !== null) {
      refuseSocket(component, socket, refusal)
      return
    }
    upgrade.call(component, request, socket, head).catch((error: unknown) => {
      if (socket.writable) refuseSocket(component, socket, refusalOf(component, error))
      else socket.destroy()
    })
  })
}

import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuseSocket } from './broken-request.ts'
import type { HttpComponent } from './component.ts'
import { crossOriginRefusal } from './cross-origin-guard.ts'
import { refusalOf } from './refusal.ts'
import { formHeadersOf, hostsRefusal } from './request-form.ts'

/** RFC 6455, section 4.2.2: who asks for another version is told which one there is. */
const VERSION = 'Sec-WebSocket-Version: 13\r\n'

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
      refuseSocket(component, socket, refusal, VERSION)
      return
    }
    upgrade.call(component, request, socket, head).catch((error: unknown) => {
      if (!socket.writable) socket.destroy()
      else refuseSocket(component, socket, refusalOf(component, error), VERSION)
    })
  })
}

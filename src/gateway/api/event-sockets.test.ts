import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { BusinessNetwork } from '../../network/index.ts'
import type { GatewayService } from '../service.ts'
import { EventSockets } from './event-sockets.ts'

const SUBSCRIBERS_MAX = 2_000

it('does not count connections that closed while their identity was read', async () => {
  const identity = Promise.withResolvers<null>()
  const network = { readUnchecked: () => identity.promise } as Pick<
    BusinessNetwork,
    'readUnchecked'
  >
  const service = { catchUp: async () => {}, isNamed: () => false, serve: () => ({ network }) }
  const sockets = new EventSockets({
    service: service as unknown as GatewayService,
    access: { apiKey: null, open: false },
    everyHalfMinute: () => () => {},
  })
  const upgrade = () => {
    const socket = new Socket()
    const request = new IncomingMessage(socket)
    request.url = '/?access_token=secret'
    request.headers = { upgrade: 'websocket' }
    const end = sockets.upgrade(request, socket, Buffer.alloc(0)).catch(({ code }) => code)
    return { socket, end }
  }
  const waiting = Array.from({ length: SUBSCRIBERS_MAX }, upgrade)
  expect(await upgrade().end).toBe('LISTENERS_TOO_MANY')
  for (const { socket } of waiting) socket.destroy()
  await new Promise((resolve) => setImmediate(resolve))
  const next = upgrade()
  identity.resolve(null)
  expect(await next.end).toBe('IDENTITY_UNKNOWN')
  await Promise.all(waiting.map(({ end }) => end))
})

it.each([
  ['the gateway began to close', 'CLOSING'],
  ['its network was removed', 'NETWORK_BUSY'],
])('refuses a connection whose caller was identified only after %s', async (_, code) => {
  const service = {
    catchUp: async () => (code === 'CLOSING' ? sockets.close() : undefined),
    isNamed: () => false,
    serve: () => ({ network: code === 'CLOSING' ? null : {} }),
  }
  const sockets = new EventSockets({
    service: service as unknown as GatewayService,
    access: { apiKey: null, open: true },
    everyHalfMinute: () => () => {},
  })
  const socket = new Socket()
  const request = new IncomingMessage(socket)
  request.url = '/'
  request.method = 'GET'
  request.headers = {
    ...{ upgrade: 'websocket', connection: 'upgrade', 'sec-websocket-version': '13' },
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  await expect(sockets.upgrade(request, socket, Buffer.alloc(0))).rejects.toMatchObject({ code })
})

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { exchange } from '../../test/support/raw-socket.ts'
import { readBody } from './body-readers.ts'
import type { HttpApp, HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { HttpRefusal, statusFalseReply } from './refusal.ts'

/** A reply with more bytes than the system buffers for a client that does not read. */
const LONG = 'x'.repeat(32 * 1024 * 1024)

/** Starts a listener. `/slow` replies after a call of `release`. `started` lists the handled requests. */
async function listen(requestTimeoutMs = 30_000, extra: (app: HttpApp) => void = () => {}) {
  const started: string[] = []
  const sockets = new Set<Socket>()
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const component: HttpComponent = {
    name: 'tested',
    limits: { bodyBytesMax: 1_000_000, requestTimeoutMs },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      app.addContentTypeParser('*', async (request: FastifyRequest) => readBody(request))
      app.get('/free', async () => 'free')
      app.get('/slow', async ({ raw }) => {
        started.push('slow')
        sockets.add(raw.socket)
        reached.resolve()
        await released.promise
        return 'slow'
      })
      app.get('/long', async () => {
        started.push('long')
        return LONG
      })
      app.get('/items/:id', async ({ params }) => {
        const { id } = params as { id: string }
        started.push(id)
        return id
      })
      app.post('/lengths', async ({ body }) => `${(body as Buffer).length} bytes`)
      extra(app)
    },
    async upgrade() {
      throw new HttpRefusal(403, 'NOT_UPGRADED', 'the upgrade was accepted and then refused')
    },
  }
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const { url, close } = await startListener(component, options)
  onTestFinished(close)
  return { url, started, sockets, reached: reached.promise, release: () => released.resolve() }
}

function connectTo(url: string): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  return socket
}

/** Waits until the listener has handled all bytes sent so far. */
async function settle(url: string): Promise<void> {
  for (let count = 0; count < 20; count += 1) await (await fetch(`${url}/free`)).text()
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`

it('starts a pipelined request after the previous reply was sent, and replies in order', async () => {
  const { url, started, reached, release } = await listen()
  const paths = Array.from({ length: 200 }, (_, index) => `/items/${index}`)
  const pipelined = exchange(url, [get('/slow') + paths.map(get).join('')], { replies: 201 })
  await reached
  await settle(url)
  expect(started).toEqual(['slow'])
  release()
  const { replies } = await pipelined
  const ids = paths.map((_, index) => String(index))
  expect(replies.map(({ body }) => body)).toEqual(['slow', ...ids])
  expect(started).toEqual(['slow', ...ids])
})

it('starts only the first of 200 pipelined requests until the client reads the reply', async () => {
  const { url, started } = await listen()
  const client = connectTo(url)
  client.write(get('/long') + get('/items/1').repeat(199))
  await once(client, 'readable')
  await settle(url)
  expect(started).toEqual(['long'])
  let bytes = 0
  let tail = ''
  for await (const piece of client) {
    bytes += piece.length
    tail = (tail + piece.toString('latin1')).slice(-1_000)
    if (bytes > LONG.length && started.length === 200 && tail.endsWith('\r\n\r\n1')) break
  }
  expect(started).toEqual(['long', ...Array(199).fill('1')])
})

it('stops reading from a connection that has waiting requests, and answers further requests later', async () => {
  const { url, started, sockets, reached, release } = await listen()
  const count = 3_000
  const pipelined = exchange(url, [get('/slow') + get('/items/1').repeat(count)], {
    replies: count + 1,
  })
  await reached
  await settle(url)
  const [socket] = sockets
  // The connection was paused after its first read, and Node reads at most 64 KiB at a time.
  expect(socket?.bytesRead).toBeLessThanOrEqual(64 * 1024)
  expect(started).toEqual(['slow'])
  release()
  const { replies } = await pipelined
  expect(replies.length).toBe(count + 1)
  expect(started.length).toBe(count + 1)
})

it('answers pipelined requests in order, even with bodies, HEAD and unknown paths', async () => {
  const { url, reached, release } = await listen()
  const type = 'Host: a\r\nContent-Type: text/plain\r\n'
  const body = 'b'.repeat(300_000)
  const requests = [
    get('/slow'),
    'HEAD /items/1 HTTP/1.1\r\nHost: a\r\n\r\n',
    `POST /lengths HTTP/1.1\r\n${type}Content-Length: ${body.length}\r\n\r\n${body}`,
    get('/nowhere'),
    get('/%ff'),
    `POST /lengths HTTP/1.1\r\n${type}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
    get('/items/2'),
  ]
  const methods = requests.map((request) => request.split(' ')[0] ?? '')
  const pipelined = exchange(url, [requests.join('')], { replies: requests.length, methods })
  await reached
  await settle(url)
  release()
  const { replies, closed } = await pipelined
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 404, 400, 200, 200])
  expect([replies[2]?.body, replies[5]?.body]).toEqual(['300000 bytes', '2 bytes'])
  expect([replies[0]?.body, replies[6]?.body, closed]).toEqual(['slow', '2', false])
})

it('reads a rejected body to its end, and answers the next requests on the connection', async () => {
  const { url } = await listen(30_000, (app) => {
    app.addContentTypeParser('text/refused', async (request: FastifyRequest) => {
      await readBody(request)
      throw new HttpRefusal(422, 'BODY_REFUSED', 'this body is refused')
    })
  })
  const refused =
    'POST /lengths HTTP/1.1\r\nHost: a\r\nContent-Type: text/refused\r\nContent-Length: 2\r\n\r\nab'
  const pipelined = [refused, get('/items/1').repeat(20), refused, get('/items/2')]
  const { replies, closed } = await exchange(url, pipelined, { replies: 23 })
  expect(replies.map(({ status }) => status)).toEqual([422, ...Array(20).fill(200), 422, 200])
  expect(closed).toBe(false)
})

it('ignores an upgrade while a reply on the connection is pending', async () => {
  const { url, reached, release } = await listen()
  const upgrade =
    'GET /items/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const pipelined = exchange(url, [get('/slow') + upgrade], { replies: 2 })
  await reached
  await settle(url)
  release()
  const { replies } = await pipelined
  expect(replies.map(({ status, body }) => [status, body])).toEqual([
    [200, 'slow'],
    [200, '1'],
  ])
  const client = connectTo(url)
  client.write(get('/items/1'))
  expect(String(await once(client, 'data'))).toMatch(/^HTTP\/1.1 200 OK\r\n/)
  client.write(upgrade)
  expect(String(await once(client, 'data'))).toMatch(/^HTTP\/1.1 403 Forbidden\r\n/)
})

it.each(['h2c', 'TLS/1.0', 'h2c, websocket'])(
  'answers a request that offers the protocol %s as if it offered none, then closes the connection',
  async (protocol) => {
    const { url } = await listen()
    const offer =
      'POST /lengths HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n' +
      `Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: ${protocol}\r\n\r\nab`
    const { replies, closed } = await exchange(url, [offer + get('/free')])
    expect(replies.map(({ status, body }) => [status, body])).toEqual([[200, '2 bytes']])
    expect([replies[0]?.headers.get('connection'), closed]).toEqual(['close', true])
  },
)

it('does not time out an incomplete request while the server has paused its connection', async () => {
  const { url, reached, release } = await listen(200)
  const client = connectTo(url)
  client.write(get('/slow') + get('/items/1') + get('/items/2').slice(0, 20))
  await reached
  const late = await exchange(url, [get('/items/1').slice(0, 20)])
  expect(late.replies.map(({ status }) => status)).toEqual([408])
  release()
  let text = ''
  for await (const piece of client) {
    text += piece
    if (text.endsWith('\r\n\r\n1')) client.write(get('/items/2').slice(20))
    if (text.endsWith('\r\n\r\n2')) break
  }
  expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(Array(3).fill('HTTP/1.1 200'))
})

it('drops the waiting requests of a client that disconnects', async () => {
  const { url, started, sockets, reached, release } = await listen()
  const client = connectTo(url)
  client.write(get('/slow') + get('/items/1').repeat(100))
  await reached
  const [socket] = sockets
  const closed = new Promise((resolve) => socket?.on('close', resolve))
  client.resetAndDestroy()
  release()
  await closed
  await settle(url)
  expect(started.length).toBeLessThan(101)
})

import { connect, type Socket } from 'node:net'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import type { HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { statusFalseReply } from './refusal.ts'

/** Starts a listener for at most four connections. `/slow` sends no body before the test has finished. */
async function listen(): Promise<number> {
  const finished = Promise.withResolvers<void>()
  const upgraded: { destroy(): void }[] = []
  const component: HttpComponent = {
    name: 'tested',
    limits: { bodyBytesMax: 1, requestTimeoutMs: 30_000, socketsMax: 4 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      app.get('/', async () => 'here')
      app.get('/slow', async (_request, reply) => {
        // Sends the headers, so that the client sees that the request has started.
        reply.raw.writeHead(200).flushHeaders()
        await finished.promise
        reply.hijack()
        reply.raw.end()
      })
    },
    async upgrade(_request, socket) {
      upgraded.push(socket)
      socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
    },
  }
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const { url, close } = await startListener(component, options)
  onTestFinished(async () => {
    finished.resolve()
    for (const socket of upgraded) socket.destroy()
    await close()
  })
  return Number(new URL(url).port)
}

const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'

/** A client with one connection. */
class Client {
  readonly socket: Socket
  readonly closed: Promise<null>

  constructor(port: number, localAddress = '127.0.0.1') {
    this.socket = connect({ host: '127.0.0.1', port, localAddress })
    this.socket.on('error', () => {})
    this.closed = new Promise((resolve) => this.socket.on('close', () => resolve(null)))
    onTestFinished(() => void this.socket.destroy())
  }

  /** Returns the status of the reply, or null if the connection is closed instead. */
  async get(path: string, headers = ''): Promise<number | null> {
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
    const data = new Promise((resolve) => this.socket.once('data', resolve))
    const received = await Promise.race([data, this.closed])
    return received === null ? null : Number(String(received).slice(9, 12))
  }
}

/** Returns for each client whether its connection is still open. */
async function stillOpen(clients: readonly Client[]): Promise<boolean[]> {
  const statuses = await Promise.all(clients.map((client) => client.get('/')))
  return statuses.map((status) => status === 200)
}

it('closes the least recently used idle connection for a new one when the limit is reached', async () => {
  const port = await listen()
  const clients = Array.from({ length: 4 }, () => new Client(port))
  for (const client of clients) expect(await client.get('/')).toBe(200)
  expect(await clients[0]?.get('/')).toBe(200)
  const newcomer = new Client(port)
  expect(await newcomer.get('/')).toBe(200)
  expect(await stillOpen([...clients, newcomer])).toEqual([true, false, true, true, true])
})

it('at the limit, closes connections without a request when other clients connect', async () => {
  const port = await listen()
  const silent = Array.from({ length: 20 }, () => new Client(port))
  for (const address of ['127.0.0.1', '127.0.0.2', '127.0.0.3']) {
    expect(await new Client(port, address).get('/')).toBe(200)
  }
  expect((await stillOpen(silent)).filter((isOpen) => isOpen).length).toBeLessThanOrEqual(1)
})

it('rejects a new connection of a client whose own busy connections have reached the limit', async () => {
  const port = await listen()
  const busy = Array.from({ length: 3 }, () => new Client(port))
  for (const client of busy) expect(await client.get('/slow')).toBe(200)
  const upgraded = new Client(port)
  expect(await upgraded.get('/', UPGRADE)).toBe(101)
  expect(await new Client(port).get('/')).toBeNull()
  expect([...busy, upgraded].map(({ socket }) => socket.closed)).toEqual(Array(4).fill(false))
})

it('closes the oldest busy connection of a client that has more than half of all connections', async () => {
  const port = await listen()
  const busy = Array.from({ length: 4 }, () => new Client(port))
  for (const client of busy) expect(await client.get('/slow')).toBe(200)
  const otherClient = () => new Client(port, '127.0.0.2').get('/slow')
  // After two of these requests, each client has two of the four connections, and all connections are busy.
  expect([await otherClient(), await otherClient(), await otherClient()]).toEqual([200, 200, null])
  await Promise.all(busy.slice(0, 2).map(({ closed }) => closed))
  expect(busy.map(({ socket }) => socket.closed)).toEqual([true, true, false, false])
})

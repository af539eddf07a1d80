import { once } from 'node:events'
import { createConnection, createServer, type Server, type Socket } from 'node:net'

/** A message of the PostgreSQL protocol, version 3. */
export interface ProxyMessage {
  /** Number of the connection, from 0. */
  readonly connection: number
  readonly from: 'client' | 'server'
  /** Number of the message within its connection and direction, from 0. */
  readonly number: number
  /** First byte of the message, for example `P` (parse) from a client. Empty for the first message of a client. */
  readonly type: string
  /** The whole message, including type and length. */
  readonly bytes: Buffer
}

/**
 * What the proxy does with a message. `cut before`: the proxy loses the message and closes the connection.
 * `cut after`: the proxy delivers the message and closes the connection. In both cases, the other side first
 * receives all earlier data. `hold`: the proxy loses this and all later messages, but the connection stays
 * open.
 */
export type Verdict = 'pass' | 'cut before' | 'cut after' | 'hold'

const TYPE_BYTES = 1
const LENGTH_BYTES = 4

/** Splits the bytes of one direction into messages. */
class Messages {
  #rest: Buffer = Buffer.alloc(0)
  /** True until the first message of a client, which has no type byte. */
  #isFirst: boolean

  constructor(from: 'client' | 'server') {
    this.#isFirst = from === 'client'
  }

  *add(bytes: Buffer): Generator<{ type: string; bytes: Buffer }> {
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (;;) {
      const typeBytes = this.#isFirst ? 0 : TYPE_BYTES
      if (this.#rest.length < typeBytes + LENGTH_BYTES) return
      const end = typeBytes + this.#rest.readUInt32BE(typeBytes)
      if (this.#rest.length < end) return
      const message = this.#rest.subarray(0, end)
      this.#rest = this.#rest.subarray(end)
      this.#isFirst = false
      yield { type: message.toString('latin1', 0, typeBytes), bytes: message }
    }
  }
}

/** A TCP proxy in front of a PostgreSQL server that can close connections at chosen messages. */
export class PostgresProxy implements AsyncDisposable {
  /** Called for each message. Tests replace this function. */
  verdict: (message: ProxyMessage) => Verdict = () => 'pass'
  readonly #listener: Server
  readonly #target: URL
  readonly #sockets = new Set<Socket>()
  #connections = 0

  private constructor(listener: Server, target: URL) {
    this.#listener = listener
    this.#target = target
    listener.on('connection', (client) => this.#connect(client))
  }

  static async start(url: string): Promise<PostgresProxy> {
    const listener = createServer()
    listener.listen(0, '127.0.0.1')
    await once(listener, 'listening')
    return new PostgresProxy(listener, new URL(url))
  }

  /** The URL of the database through the proxy. */
  get url(): string {
    const address = this.#listener.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    const url = new URL(this.#target)
    url.host = `127.0.0.1:${address.port}`
    return url.href
  }

  /** Number of connections so far. */
  get connections(): number {
    return this.#connections
  }

  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cutAll()
    this.#listener.close()
    await once(this.#listener, 'close')
  }

  #connect(client: Socket): void {
    const connection = this.#connections
    this.#connections += 1
    const { hostname, port } = this.#target
    const server = createConnection({ host: hostname, port: Number(port) })
    const link = { isCut: false, isHeld: false }
    this.#forward({ connection, from: 'client', source: client, target: server, link })
    this.#forward({ connection, from: 'server', source: server, target: client, link })
  }

  #forward(options: {
    connection: number
    from: 'client' | 'server'
    source: Socket
    target: Socket
    link: { isCut: boolean; isHeld: boolean }
  }): void {
    const { connection, from, source, target, link } = options
    const messages = new Messages(from)
    let number = 0
    this.#sockets.add(source)
    source.setNoDelay(true)
    // The event 'close' also reports a connection that failed.
    source.on('error', () => {})
    source.on('close', () => {
      this.#sockets.delete(source)
      if (!link.isHeld) target.end()
    })
    source.on('data', (bytes) => {
      for (const message of messages.add(bytes)) {
        if (link.isCut || link.isHeld) return
        const verdict = this.verdict({ connection, from, number, ...message })
        number += 1
        if (verdict === 'pass' || verdict === 'cut after') target.write(message.bytes)
        if (verdict === 'hold') link.isHeld = true
        if (verdict === 'pass' || verdict === 'hold') continue
        link.isCut = true
        // Data that was sent before still arrives. Later data from the other side is read and discarded.
        target.end()
        if (from === 'client') source.destroy()
        else source.end()
      }
    })
  }
}

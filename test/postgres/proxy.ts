import { once } from 'node:events'
import { createConnection, createServer, type Server, type Socket } from 'node:net'

/** A message of PostgreSQL's protocol, version 3. */
export interface ProxyMessage {
  /** Number of the connection since the proxy began, from 0. */
  readonly connection: number
  readonly from: 'client' | 'server'
  /** Number of the message in its direction of the connection, from 0. */
  readonly number: number
  /** Its first byte, for example `P` (parse) from a client; empty for the first message of a connection. */
  readonly type: string
  /** The message with type and length. */
  readonly bytes: Buffer
}

/**
 * What the proxy does with a message. `cut before`: the message is lost and the connection closes. `cut after`: the
 * message arrives and the connection closes. The other side receives all data sent to it, and then the close. `hold`:
 * this message and all later messages are lost, but the connection stays open.
 */
export type Verdict = 'pass' | 'cut before' | 'cut after' | 'hold'

const TYPE_BYTES = 1
const LENGTH_BYTES = 4

/** Splits the bytes of one direction into messages. */
class Messages {
  #rest: Buffer = Buffer.alloc(0)
  /** The first message of a client has no type. */
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

/** A TCP proxy in front of a PostgreSQL server that closes connections at chosen messages. */
export class PostgresProxy implements AsyncDisposable {
  /** Called for each message; replaced by tests. */
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

  /** Starts a proxy for the server of `url`. */
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

  /** Connections so far. */
  get connections(): number {
    return this.#connections
  }

  /** Closes all connections. */
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
    // The event 'close' reports the end of a connection.
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
        // Earlier writes arrive; later data from the other side is read and discarded.
        target.end()
        if (from === 'client') source.destroy()
        else source.end()
      }
    })
  }
}

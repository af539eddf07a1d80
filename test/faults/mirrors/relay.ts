import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Dice } from '../../support/ledger-load.ts'

/** Time between two pieces of a slow reply. */
const SLOW_MS = 300
const BOMB = gzipSync(`{"status":true,"ledgers":[${'{},'.repeat(5_000_000)}{}]}`)

/** Forwards requests to a node, and cuts, slows, refuses or changes them according to its mode. */
export class Relay {
  /** Number of modes. 0 forwards everything unchanged. */
  static readonly MODES = 8
  readonly url: string
  readonly #server: Server
  readonly #target: () => string
  readonly #dice: Dice
  #mode = 0
  /** The last reply of each path, for the mode that repeats old replies. */
  readonly #old = new Map<string, Buffer>()

  private constructor(server: Server, target: () => string, dice: Dice) {
    this.#server = server
    this.#target = target
    this.#dice = dice
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  static async start(target: () => string, dice: Dice): Promise<Relay> {
    const server = createServer((incoming, reply) => relay.#forward(incoming, reply))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const relay = new Relay(server, target, dice)
    return relay
  }

  setMode(mode: number): void {
    this.#mode = mode
    if (mode === 1) this.#server.closeAllConnections()
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #forward(incoming: IncomingMessage, reply: ServerResponse): void {
    const { method = 'GET', url = '', headers } = incoming
    reply.on('error', () => {})
    if (this.#mode === 1) return void incoming.destroy()
    const onward = request(this.#target() + url, { method, headers }, (answer) => {
      const pieces: Buffer[] = []
      answer.on('data', (piece: Buffer) => pieces.push(piece))
      answer.on('error', () => reply.destroy())
      answer.on('end', () => this.#answer(url, answer, Buffer.concat(pieces), reply))
    })
    onward.on('error', () => reply.destroy())
    incoming.on('error', () => onward.destroy())
    incoming.pipe(onward)
  }

  #answer(url: string, answer: IncomingMessage, body: Buffer, reply: ServerResponse): void {
    const status = answer.statusCode ?? 500
    const { 'transfer-encoding': _, ...rest } = answer.headers
    const headers = { ...rest, 'content-length': `${body.length}` }
    const dice = this.#dice
    const [path = ''] = url.split('?')
    const old = this.#old.get(path) ?? body
    if (this.#old.size < 200) this.#old.set(path, body)
    switch (this.#mode) {
      case 2:
        return void this.#trickle(reply.writeHead(status, headers), body)
      case 3:
        // Cuts the reply in the middle.
        reply.writeHead(status, headers).write(body.subarray(0, dice.below(body.length + 1)))
        return void setTimeout(() => reply.destroy(), 50)
      case 4: {
        const changed = Buffer.from(body)
        if (changed.length > 0) changed[dice.below(changed.length)] = dice.below(256)
        return void reply.writeHead(status, headers).end(changed)
      }
      case 5:
        if (dice.below(2) === 0) return void reply.writeHead(500).end()
        return void reply.writeHead(status, headers).end(body)
      case 6:
        return void reply
          .writeHead(status, { ...headers, 'content-length': `${old.length}` })
          .end(old)
      case 7:
        if (dice.below(3) > 0) return void reply.writeHead(status, headers).end(body)
        return void reply.writeHead(200, { 'content-encoding': 'gzip' }).end(BOMB)
      default:
        return void reply.writeHead(status, headers).end(body)
    }
  }

  #trickle(reply: ServerResponse, body: Buffer): void {
    if (body.length === 0 || reply.destroyed) return void reply.end()
    const bytes = Math.max(64, body.length >> 3)
    reply.write(body.subarray(0, bytes))
    setTimeout(() => this.#trickle(reply, body.subarray(bytes)), SLOW_MS)
  }
}

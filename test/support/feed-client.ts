import { connect, type Socket } from 'node:net'

/** An entry as the feed sends it. */
export interface SeenEntry {
  readonly position: string
  readonly timestamp: number
  // biome-ignore lint/suspicious/noExplicitAny: tests assert on arbitrary entries
  readonly entry: any
}

/**
 * A client of the change feed on its own socket. It parses events as the standard requires: it stores the
 * last id even without an event, and discards an incomplete event.
 */
export class FeedClient {
  readonly entries: SeenEntry[] = []
  head = ''
  /** Value of Last-Event-ID for the next connection, or null if the client received no id. */
  lastEventId: string | null
  /** Number of received comments and of received ids without an event. */
  signs = 0
  closed = false
  readonly #socket: Socket
  #text = ''
  #wake: (() => void)[] = []

  constructor(url: string, path: string, lastEventId: string | null = null) {
    const { hostname, port, host } = new URL(url)
    this.lastEventId = lastEventId
    this.#socket = connect(Number(port), hostname)
    const again = lastEventId === null ? '' : `last-event-id: ${lastEventId}\r\n`
    this.#socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n${again}\r\n`)
    this.#socket.setEncoding('utf8')
    this.#socket.on('data', (text: string) => this.#read(text))
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => {
      this.closed = true
      this.#tell()
    })
  }

  /** Resolves when `holds` returns true. Rejects if the connection closes first. */
  async until(holds: (client: this) => boolean): Promise<void> {
    while (!holds(this)) {
      if (this.closed) throw new Error(`closed: ${this.head}${this.#text}`)
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
  }

  async end(): Promise<void> {
    while (!this.closed) await new Promise<void>((resolve) => this.#wake.push(resolve))
  }

  /** Stops reading until `resume`. */
  stall(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  leave(): void {
    // Without this, a paused client would still read the data that arrived before `leave`.
    this.#socket.removeAllListeners('data')
    this.#socket.destroy()
  }

  #read(text: string): void {
    this.#text += text
    if (this.head === '') {
      const end = this.#text.indexOf('\r\n\r\n')
      if (end === -1) return
      this.head = this.#text.slice(0, end)
      this.#text = this.#text.slice(end + 4)
    }
    const blocks = this.#text.split('\n\n')
    this.#text = blocks.pop() ?? ''
    for (const block of blocks) this.#event(block.split('\n'))
    this.#tell()
  }

  #event(lines: string[]): void {
    const field = (name: string) =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
    this.lastEventId = field('id') ?? this.lastEventId
    const data = field('data')
    if (data === undefined) this.signs += 1
    else if (field('event') === 'entry') this.entries.push(JSON.parse(data))
  }

  #tell(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

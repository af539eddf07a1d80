// Subscribes to the change feed over many connections, and counts the events. Reads commands from stdin, one per line:
// `count` prints the counts as one line of JSON, `end` exits.
import { connect, type Socket } from 'node:net'
import { constants, setPriority } from 'node:os'
import { createInterface } from 'node:readline'

/** Counts of one subscriber process. */
export interface Seen {
  /** Number of events that the slowest reading subscriber has received. */
  readonly least: number
  /** Number of events that the fastest reading subscriber has received. */
  readonly most: number
  /** Number of events that did not follow the previous one: repeated, out of order, or after a gap. */
  readonly wrong: number
  /** Connections closed by the node. */
  readonly closed: number
}

const EVENT = Buffer.from('\nevent: entry\n')

/** Counts the events of a stream by searching for the ids of events in each chunk. */
class Stream {
  events = 0
  wrong = 0
  #rest: Buffer = Buffer.alloc(0)
  #last = -1

  read(bytes: Buffer): void {
    const text = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    let at = 0
    for (;;) {
      const found = text.indexOf(EVENT, at)
      if (found === -1) break
      const line = text.lastIndexOf(10, found - 1)
      this.#position(text.toString('latin1', line + 5, found))
      this.events += 1
      at = found + EVENT.length
    }
    // Keeps the last bytes, because the id of an event may continue in the next chunk.
    this.#rest = Buffer.from(text.subarray(Math.max(at, text.length - 64)))
  }

  /** Checks that the entry is the next entry of the same block, or the first entry of the next block. */
  #position(id: string): void {
    const [height = 0, index = 0] = id.split('.').map(Number)
    const [lastHeight, lastIndex] = [Math.floor(this.#last / 16_384), this.#last % 16_384]
    const follows =
      (height === lastHeight && index === lastIndex + 1) ||
      (height === lastHeight + 1 && index === 0)
    if (this.#last !== -1 && !follows) this.wrong += 1
    this.#last = height * 16_384 + index
  }
}

async function follow(url: URL, path: string, stalls: boolean): Promise<[Socket, Stream]> {
  const stream = new Stream()
  const socket = connect(Number(url.port), url.hostname)
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`)
  await new Promise((resolve) => socket.once('readable', resolve))
  if (!stalls) socket.on('data', (bytes) => stream.read(bytes))
  return [socket, stream]
}

async function main([address = '', path = '', reading = '0', stalled = '0']: string[]) {
  const url = new URL(address)
  const streams: Stream[] = []
  let closed = 0
  for (let at = 0; at < Number(reading) + Number(stalled); at += 1) {
    const [socket, stream] = await follow(url, path, at >= Number(reading))
    socket.on('close', () => {
      closed += 1
    })
    if (at < Number(reading)) streams.push(stream)
  }
  console.log('"following"')
  for await (const order of createInterface({ input: process.stdin })) {
    if (order === 'end') process.exit(0)
    const events = streams.map((stream) => stream.events)
    const wrong = streams.reduce((sum, stream) => sum + stream.wrong, 0)
    const seen: Seen = { least: Math.min(...events), most: Math.max(...events), wrong, closed }
    console.log(JSON.stringify(seen))
  }
}

// Subscribers have a low priority, because they normally run on other computers, where they do not slow the node down.
if (import.meta.main) setPriority(constants.priority.PRIORITY_LOW)
if (import.meta.main) await main(process.argv.slice(2))

import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'

/** Pieces of a body that are handled before other connections get their turn. */
const PIECES_PER_TURN = 256

/** How often each held socket is held. */
const holds = new WeakMap<Socket, number>()

/** Makes `hold` effective on `socket`: Node resumes a connection on its own, after each reply among others. */
export function guardHolds(socket: Socket): void {
  socket.on('resume', () => {
    if (holds.has(socket)) socket.pause()
  })
}

/** Reads nothing from `socket` until `release` was called as often as this. */
export function hold(socket: Socket): void {
  holds.set(socket, (holds.get(socket) ?? 0) + 1)
  socket.pause()
}

/** Takes one hold away. */
export function release(socket: Socket): void {
  const left = (holds.get(socket) ?? 1) - 1
  if (left > 0) {
    holds.set(socket, left)
    return
  }
  holds.delete(socket)
  socket.resume()
}

/**
 * Returns what is to be called for each piece of a body. A turn of the event loop takes up to 2 MiB from one
 * connection; in one-byte chunks that is half a second of work, so the rest is left for the next turn.
 */
export function pieceLimit({ socket }: IncomingMessage): () => void {
  let pieces = 0
  let isHeld = false
  return () => {
    pieces += 1
    if (isHeld || pieces % PIECES_PER_TURN !== 0 || !(socket instanceof Socket)) return
    isHeld = true
    hold(socket)
    setImmediate(() => {
      isHeld = false
      release(socket)
    })
  }
}

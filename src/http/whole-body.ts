import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { reservationOf } from './body-room.ts'
import { HttpRefusal } from './refusal.ts'
import { pieceLimit } from './socket-holds.ts'

/** The first buffer of a body of unknown length; it is doubled as often as needed. */
const FIRST_BYTES = 16 * 1024

const TOO_LARGE = new HttpRefusal(
  413,
  'BODY_TOO_LARGE',
  'the request body is longer than this address takes',
)
const LENGTH_WRONG = new HttpRefusal(
  400,
  'CONTENT_LENGTH_WRONG',
  'the body is not as long as Content-Length says',
)
const BROKEN_OFF = new HttpRefusal(400, 'BODY_INCOMPLETE', 'the body broke off')

/**
 * Reads the body of `request`, of at most `bytesMax` bytes. Every piece is copied into one buffer when it
 * arrives: each piece costs hundreds of bytes, so a list of one-byte pieces would exceed any limit of bytes.
 *
 * Errors: HttpRefusal BODY_TOO_LARGE (413), CONTENT_LENGTH_WRONG (400), BODY_INCOMPLETE (400), BODIES_BUSY (503).
 */
export function readBody(
  request: Pick<FastifyRequest, 'raw' | 'headers' | 'routeOptions'>,
  bytesMax: number = request.routeOptions.bodyLimit,
): Promise<Buffer> {
  const { raw, headers } = request
  const announced = headers['content-length']
  const length = announced === undefined ? null : Number(announced)
  if (length !== null && length > bytesMax) return Promise.reject(TOO_LARGE)
  // A request without a body is not a stream and emits nothing (`optimizeEmptyRequests`).
  if (raw.readableEnded) return Promise.resolve(Buffer.alloc(0))
  return collect(raw, length, bytesMax)
}

function collect(raw: IncomingMessage, length: number | null, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let buffer = Buffer.allocUnsafe(length ?? Math.min(FIRST_BYTES, bytesMax))
    let used = 0
    const settle = (error: Error | null) => {
      raw.off('data', take).off('end', end).off('error', breakOff).off('close', breakOff)
      if (error === null) resolve(used === buffer.length ? buffer : buffer.subarray(0, used))
      else reject(error)
    }
    const countPiece = pieceLimit(raw)
    const take = (piece: Buffer) => {
      countPiece()
      const needed = used + piece.length
      if (needed > bytesMax) return settle(TOO_LARGE)
      if (needed > buffer.length) {
        const bytes = Math.min(Math.max(2 * buffer.length, needed), bytesMax)
        const refusal = reservationOf(raw)?.raise(bytes)
        if (refusal) return settle(refusal)
        const larger = Buffer.allocUnsafe(bytes)
        buffer.copy(larger, 0, 0, used)
        buffer = larger
      }
      piece.copy(buffer, used)
      used = needed
    }
    const end = () => settle(length !== null && length !== used ? LENGTH_WRONG : null)
    const breakOff = () => settle(BROKEN_OFF)
    raw.on('data', take).on('end', end).on('error', breakOff).on('close', breakOff)
  })
}

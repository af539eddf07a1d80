import type { FileHandle } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { onDisk } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { ByteRange } from './ranges.ts'

/** Read from the file at a time. */
const BLOCK_BYTES = 256 * 1024

/** A text between parts, or a part of the file. */
export type Piece = string | ByteRange

/**
 * Sends pieces of `file` and the texts between them as fast as the client takes them, and ends the
 * response; closes the file in any case. One block is read while the other is sent, and both are used
 * again and again: with a stream, the garbage of a gigabyte took some 80 MB more.
 * Errors: of the file; then, and when the client went away, the connection is closed.
 */
export async function sendPieces(
  response: ServerResponse,
  file: FileHandle,
  pieces: readonly Piece[],
): Promise<void> {
  const client = new Client(response)
  try {
    let block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    let other = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    for (const piece of pieces) {
      if (typeof piece === 'string') {
        await client.send(piece)
        continue
      }
      for (let at = piece.start; at <= piece.end; ) {
        const count = Math.min(BLOCK_BYTES, piece.end - at + 1)
        const { bytesRead } = await onDisk(() => file.read(block, 0, count, at))
        if (bytesRead === 0) {
          throw new LedgerError('ATTACHMENT_LOST', 'the file of a content has become shorter')
        }
        at += bytesRead
        // Returns when what was given before has gone, so the other block is free.
        await client.send(block.subarray(0, bytesRead))
        ;[block, other] = [other, block]
      }
    }
    await client.end()
  } catch (error) {
    response.destroy()
    if (!client.isGone) throw error
  } finally {
    client.leave()
    await file.close()
  }
}

/** The receiving end of a response. */
class Client {
  isGone = false
  readonly #response: ServerResponse
  /** Settles when the last bytes were taken by the system. */
  #sent: Promise<void> = Promise.resolve()
  #fail: (() => void) | null = null

  constructor(response: ServerResponse) {
    this.#response = response
    if (response.req.socket.destroyed) this.isGone = true
    // A response that waits behind others on its connection hears nothing of its end otherwise.
    response.req.socket.once('close', this.#close)
  }

  /** Gives `bytes` to the system when it has taken what came before. Errors: when the client is gone. */
  async send(bytes: string | Uint8Array): Promise<void> {
    await this.#sent
    if (this.isGone) throw new Error('the client has gone')
    this.#sent = new Promise((resolve, reject) => {
      this.#fail = () => reject(new Error('the client has gone'))
      this.#response.write(bytes, (error) => {
        if (error) this.#close()
        else resolve()
      })
    })
    this.#sent.catch(() => {})
  }

  async end(): Promise<void> {
    await this.#sent
    this.#response.end()
  }

  leave(): void {
    this.#response.req.socket.off('close', this.#close)
  }

  readonly #close = (): void => {
    this.isGone = true
    this.#fail?.()
  }
}

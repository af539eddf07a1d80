import { EventEmitter } from 'node:events'
import { type FromWriter, type PackedBatch, type ToWriter, unpackRequest } from './messages.ts'

/**
 * A fake writer thread. Records the messages that it receives, and sends messages when the test calls `send`.
 */
export class FakeThread extends EventEmitter {
  readonly sent: ToWriter[] = []
  isTerminated = false

  postMessage(message: ToWriter | PackedBatch): void {
    this.sent.push(unpackRequest(message))
  }

  terminate(): void {
    this.isTerminated = true
    this.emit('exit')
  }

  send(message: FromWriter): void {
    this.emit('message', message)
  }

  /** Returns the number of units of each received block. */
  blocks(): number[] {
    return this.sent.flatMap((message) => ('units' in message ? [message.units.length] : []))
  }

  /**
   * Reports that the next block, with `entries` entries, is durable. Sends enough outcomes for the largest block. The
   * writer ignores outcomes without a unit.
   */
  sendCommitted(height: number, entries: number): void {
    const block = { height, id: `block ${height}`, entries, bytes: 1, ms: 1 }
    const units = Math.max(...this.blocks())
    this.send({ block, outcomes: Array.from({ length: units }, (_, index) => ({ index })) })
  }
}

import { EventEmitter } from 'node:events'
import { type FromWriter, type ToWriter, unpackBatch } from './messages.ts'

/**
 * A writer thread controlled by the test: records the messages it receives, and sends the messages of the test.
 */
export class FakeThread extends EventEmitter {
  readonly sent: ToWriter[] = []
  /** The buffers transferred to it without a copy. */
  readonly moved: ArrayBuffer[] = []
  isTerminated = false

  postMessage(message: ToWriter, moved: ArrayBuffer[] = []): void {
    this.sent.push(message)
    this.moved.push(...moved)
  }

  terminate(): void {
    this.isTerminated = true
    this.emit('exit')
  }

  send(message: FromWriter): void {
    this.emit('message', message)
  }

  /** Number of units of each block that it received. */
  blocks(): number[] {
    return this.sent.flatMap((message) =>
      'units' in message ? [unpackBatch(message.units).length] : [],
    )
  }

  /**
   * Stores the next block of `entries`, as if each unit had one; the writer ignores outcomes without a
   * unit.
   */
  sendCommitted(height: number, entries: number): void {
    const block = { height, id: `block ${height}`, entries, bytes: 1, ms: 1 }
    const units = Math.max(...this.blocks())
    this.send({ block, outcomes: Array.from({ length: units }, (_, index) => ({ index })) })
  }
}

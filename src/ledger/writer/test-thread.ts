import { EventEmitter } from 'node:events'
import type { FromWriter, ToWriter } from './messages.ts'

/** The writer's thread, played by the test: what it was sent, and what it says. */
export class PlayedThread extends EventEmitter {
  readonly sent: ToWriter[] = []
  /** The bytes that came without a copy. */
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

  says(message: FromWriter): void {
    this.emit('message', message)
  }

  /** The numbers of units of the blocks that it was given. */
  blocks(): number[] {
    return this.sent.flatMap((message) => ('units' in message ? [message.units.length] : []))
  }

  /** Stores the next block, of `entries`, one for each unit. */
  stores(height: number, entries: number): void {
    const block = { height, id: `block ${height}`, entries, bytes: 1, ms: 1 }
    this.says({ block, outcomes: null })
  }
}

import { isJsonObject } from '../../base/json.ts'
import { StoreError } from '../../ledger/core.ts'
import type { ResourceDatabase } from '../resources/database.ts'
import { type EventText, toEventText } from '../transactions/messages.ts'

export interface EmittedEvent {
  /** Qualified name of the event's type. */
  readonly type: string
  readonly id: string
  /** The event as canonical JSON in UTF-8: one copy for all receivers, because an event may have 10 MB. */
  readonly bytes: Buffer
}

/** The events of one block of the ledger. */
export interface EmittedEvents {
  readonly height: number
  readonly events: readonly EmittedEvent[]
}

export interface RecordedEvents {
  readonly emitted: readonly EmittedEvents[]
  /** Height of the next page's first block. */
  readonly next: number
}

/** Called with the events of a block after its commit. */
export type EventListener = (emitted: EmittedEvents) => void

/** The recorded and future events of a network. */
export class EventFeed {
  readonly #database: ResourceDatabase
  readonly #listeners = new Set<EventListener>()
  /** Height of the first block whose events `follow` has not sent yet. */
  #followed = 0

  constructor(database: ResourceDatabase) {
    this.#database = database
  }

  /** Calls `listener` with the events of each future block until the returned function is called. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Sends the events of the block at `height` to the listeners. */
  publish(height: number, events: readonly EventText[]): void {
    if (events.length === 0 || this.#listeners.size === 0) return
    this.#emit({ height, events: events.map(toEmittedEvent) })
  }

  /**
   * Sends the events of the blocks from height `from` to height `to` (inclusive) to the listeners. Skips the blocks
   * that earlier calls have sent, because after a failure the caller passes the same blocks again. Errors: StoreError.
   */
  async follow(from: number, to: number): Promise<void> {
    for (let height = Math.max(from, this.#followed); height <= to && this.#listeners.size > 0; ) {
      const { emitted, next } = await this.readRecorded(height)
      for (const events of emitted) if (events.height <= to) this.#emit(events)
      if (next === height) {
        throw new StoreError('STORE_UNAVAILABLE', `block ${height} is missing in the database`)
      }
      height = next
      this.#followed = Math.min(next, to + 1)
    }
  }

  /**
   * Reads one page of the recorded events, starting with the block at `height`. `next` is the height after the last
   * block read, or `height` if there is no such block.
   */
  async readRecorded(height: number): Promise<RecordedEvents> {
    const found = new Map<number, EmittedEvent[]>()
    const next = await this.#database.readRecords(height, (block, { eventsEmitted }) => {
      const events = found.get(block) ?? []
      found.set(block, events)
      if (!Array.isArray(eventsEmitted)) return
      for (const event of eventsEmitted.filter(isJsonObject)) {
        events.push(toEmittedEvent(toEventText(event)))
      }
    })
    return { emitted: Array.from(found, ([block, events]) => ({ height: block, events })), next }
  }

  #emit(emitted: EmittedEvents): void {
    for (const listener of this.#listeners) listener(emitted)
  }
}

function toEmittedEvent({ text, ...event }: EventText): EmittedEvent {
  return { ...event, bytes: Buffer.from(text) }
}

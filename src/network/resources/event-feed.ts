import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { systemType } from '../model/system.ts'
import type { ResourceDatabase } from './database.ts'

/** One event of a network. */
export interface EmittedEvent {
  /** Qualified name. */
  readonly type: string
  readonly id: string
  readonly content: JsonObject
  /** Canonical JSON. */
  readonly text: string
}

/** The events of one block of the ledger. */
export interface EmittedEvents {
  readonly height: number
  readonly events: readonly EmittedEvent[]
}

/** Called with the events of a transaction when it is durable. */
export type EventListener = (emitted: EmittedEvents) => void

/** The events of a network: those to come, and those that its ledger holds. */
export class EventFeed {
  readonly #database: ResourceDatabase
  readonly #listeners = new Set<EventListener>()

  constructor(database: ResourceDatabase) {
    this.#database = database
  }

  /** Has `listener` called from now on; what is returned ends that. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Tells everyone of the events of the block at `height`. */
  publish(height: number, events: readonly JsonObject[]): void {
    if (events.length === 0 || this.#listeners.size === 0) return
    const emitted = { height, events: events.map(emittedEvent) }
    for (const listener of this.#listeners) listener(emitted)
  }

  /** The events that the ledger holds from the block at `height` on. */
  async *since(height: number): AsyncGenerator<EmittedEvents> {
    for await (const recorded of this.#database.changesFrom(height)) {
      const events = recorded.changes.flatMap((change) => {
        if (change.kind !== 'create' || change.target.type !== HISTORIAN_RECORD) return []
        const { eventsEmitted } = change.resource
        return Array.isArray(eventsEmitted) ? eventsEmitted.filter(isJsonObject) : []
      })
      if (events.length > 0) yield { height: recorded.height, events: events.map(emittedEvent) }
    }
  }
}

const HISTORIAN_RECORD = systemType('HistorianRecord')

function emittedEvent(content: JsonObject): EmittedEvent {
  const { $class, eventId } = content
  return { type: String($class), id: String(eventId), content, text: canonicalJson(content) }
}

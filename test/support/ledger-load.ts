import { Agent, request } from 'node:http'
import { expect } from 'vitest'

/** Reproducible random numbers from a seed. Algorithm: mulberry32. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  /** Returns a number of at least 0 and less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** Returns an integer of at least 0 and less than `bound`. */
  below(bound: number): number {
    return Math.floor(this.next() * bound)
  }
}

/** Content of an item, or null if the item does not exist. */
export type ItemState = Record<string, unknown> | null

/** A request, and the new state of each item that it changes, by id. */
interface Step {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly after: ReadonlyMap<string, ItemState>
}

/** Thrown for a request without a reply, which the node applied completely or not at all. */
export class Unanswered extends Error {
  override readonly name = 'Unanswered'
}

/**
 * A client with its own connection and its own items. It sends one request at a time. It records all
 * acknowledged changes, and the request that had no reply when the connection broke.
 */
export class LoadClient {
  /** Number of acknowledged requests. */
  acknowledged = 0
  /** Acknowledged state of each item, by id. null: the item was deleted. */
  readonly items = new Map<string, ItemState>()
  /** State of the items after the request that has no reply yet. null: there is no such request. */
  pending: ReadonlyMap<string, ItemState> | null = null
  readonly #name: string
  readonly #db: string
  readonly #dice: Dice
  #made = 0
  #agent = new Agent({ keepAlive: true, maxSockets: 1 })

  constructor(name: string, db: string, dice: Dice) {
    this.#name = name
    this.#db = db
    this.#dice = dice
  }

  /** Sends requests until the connection breaks. Calls `onAnswer` after each reply. */
  async run(url: string, onAnswer: () => void): Promise<void> {
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1 })
    try {
      while (await this.#answered(url)) onAnswer()
    } finally {
      this.#agent.destroy()
    }
  }

  /** Sends one request. Returns false if the connection broke, or if the node is closing. */
  async #answered(url: string): Promise<boolean> {
    const step = this.#step()
    this.pending = step.after
    const reply = await send(url, this.#agent, step).catch((error: unknown) => {
      if (error instanceof Unanswered) return null
      throw error
    })
    if (reply === null) return false
    const { status, text } = reply
    if (status === 503) {
      this.pending = null
      return false
    }
    expect([step.method, step.path, status, text.slice(0, 200)]).toEqual([
      step.method,
      step.path,
      200,
      expect.stringContaining('"status":true'),
    ])
    this.#acknowledge(step)
    return true
  }

  /**
   * Compares the items of this client with the database. Each acknowledged item must be unchanged, and the
   * request without a reply must be complete or have no effect. Then records the current state as
   * acknowledged. Returns whether the request without a reply was applied; `nothing` if there is none.
   */
  settle(stored: ReadonlyMap<string, Record<string, unknown>>): 'nothing' | 'done' | 'undone' {
    const own = [...stored].filter(([id]) => id.startsWith(`${this.#name}-`))
    const without = liveOf(this.items)
    const pending = this.pending
    this.pending = null
    if (pending === null) {
      expect(new Map(own)).toEqual(without)
      return 'nothing'
    }
    const [first] = pending
    const isDone =
      first !== undefined && JSON.stringify(stored.get(first[0]) ?? null) === canonical(first[1])
    const expected = isDone ? liveOf(new Map([...this.items, ...pending])) : without
    expect(new Map(own)).toEqual(expected)
    if (isDone) for (const [id, state] of pending) this.items.set(id, state)
    return isDone ? 'done' : 'undone'
  }

  #acknowledge({ after }: Step): void {
    for (const [id, state] of after) this.items.set(id, state)
    this.pending = null
    this.acknowledged += 1
  }

  #step(): Step {
    const live = [...this.items].filter(([, state]) => state !== null).slice(-40)
    const picked = live[this.#dice.below(live.length)]
    const path = `/api/${encodeURIComponent(this.#db)}`
    const kind = picked === undefined ? 0 : this.#dice.below(10)
    if (picked === undefined || kind < 4) {
      const item = this.#fresh()
      return { method: 'POST', path, body: item, after: new Map([[item.id, item]]) }
    }
    const [id, state] = picked
    if (kind < 6) {
      const item = {
        id,
        replaced: this.#dice.below(1_000_000),
        text: 'x'.repeat(this.#dice.below(300)),
      }
      return { method: 'POST', path: `${path}/${id}`, body: item, after: new Map([[id, item]]) }
    }
    if (kind < 7) {
      const patch = { patched: this.#dice.below(1_000_000), text: null }
      const { text: _gone, ...kept } = { text: null, ...state }
      return {
        method: 'PATCH',
        path: `${path}/${id}`,
        body: patch,
        after: new Map([[id, { ...kept, patched: patch.patched }]]),
      }
    }
    if (kind < 8) {
      return {
        method: 'DELETE',
        path: `${path}/${id}`,
        body: undefined,
        after: new Map([[id, null]]),
      }
    }
    if (kind < 9) {
      const items = [this.#fresh(), this.#fresh(), this.#fresh()]
      return {
        method: 'POST',
        path,
        body: items,
        after: new Map(items.map((item) => [item.id, item])),
      }
    }
    return this.#mixedUnit(id)
  }

  /** An atomic request with one operation of each kind. */
  #mixedUnit(id: string): Step {
    const item = this.#fresh()
    const changed = { id: item.id, changed: this.#dice.below(1_000_000) }
    const { method, path } = { method: 'POST', path: '/api/ledgers' }
    const entries = [
      { method: 'create_item', db: this.#db, item },
      { method: 'delete_item', db: this.#db, id },
      { method: 'update_item', db: this.#db, item: changed },
    ]
    const after = new Map<string, ItemState>([
      [id, null],
      [item.id, changed],
    ])
    return { method, path, body: { entries }, after }
  }

  #fresh(): { id: string; n: number; text: string } {
    this.#made += 1
    const text = '台'.repeat(this.#dice.below(60))
    return { id: `${this.#name}-${this.#made}`, n: this.#dice.next(), text }
  }
}

function liveOf(items: ReadonlyMap<string, ItemState>): Map<string, unknown> {
  return new Map([...items].filter(([, state]) => state !== null))
}

/** Returns the JSON that the node returns for an item without nested values: its members are sorted by name. */
function canonical(state: ItemState): string {
  if (state === null) return 'null'
  return JSON.stringify(
    Object.fromEntries(Object.entries(state).sort(([a], [b]) => (a < b ? -1 : 1))),
  )
}

/** Sends one request. Errors: Unanswered if the connection broke before the reply was complete. */
export function send(
  url: string,
  agent: Agent,
  { method, path, body }: Pick<Step, 'method' | 'path' | 'body'>,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? '' : JSON.stringify(body)
    const headers = {
      ...(text === '' ? {} : { 'content-type': 'application/json' }),
      'content-length': Buffer.byteLength(text),
    }
    const sent = request(`${url}${path}`, { method, agent, headers }, (reply) => {
      let received = ''
      reply.setEncoding('utf8')
      reply.on('data', (part) => {
        received += part
      })
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text: received }))
      reply.on('error', (cause) => reject(new Unanswered(path, { cause })))
    })
    sent.on('error', (cause) => reject(new Unanswered(path, { cause })))
    sent.end(text)
  })
}

/** Returns all items of a database by id. */
export async function itemsOf(
  url: string,
  db: string,
): Promise<Map<string, Record<string, unknown>>> {
  const reply = await fetch(`${url}/api/${encodeURIComponent(db)}?docs=true`)
  const text = await reply.text()
  expect(text.slice(0, 200)).toContain('"status":true')
  const { docs, items } = JSON.parse(text)
  const stored = new Map<string, Record<string, unknown>>()
  for (const item of docs) stored.set(item.id, item)
  expect([...stored.keys()]).toEqual(items)
  return stored
}

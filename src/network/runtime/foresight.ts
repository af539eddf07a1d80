import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import type { Foreseen, GuestCall, Known } from './messages.ts'

/**
 * Resources as calls that follow each other leave them. The calls were all sent with what was there
 * before the first of them; each is given what the ones before it wrote instead. Guests are nobody's
 * word: whoever takes the answer compares what was foreseen with what came of it.
 */
export class Foresight {
  /** The member that has the id, by type: of the types that are looked at. */
  readonly #identifiers: Map<string, string>
  /** By type and id; null for what was removed. */
  readonly #written = new Map<string, string | null>()
  /** What the calls wrote that these follow. */
  readonly #before: ReadonlyMap<string, string | null>

  /**
   * `calls` are those that are to come; `before` is that of the calls that they follow, if they were sent
   * with what there was before those. What came before these again is part of what they were sent with.
   */
  constructor(calls: readonly GuestCall[], before: Foresight | null) {
    this.#identifiers = new Map(before === null ? [] : before.#identifiers)
    this.#before = before === null ? new Map() : before.#written
    for (const { known } of calls) {
      for (const { type, identifier } of known) this.#identifiers.set(type, identifier)
    }
  }

  /** What differs from `known` by now. */
  of(known: readonly Known[]): Foreseen[] {
    if (this.#written.size + this.#before.size === 0) return []
    const foreseen: Foreseen[] = []
    for (const [at, { type, id, text: before }] of known.entries()) {
      const key = keyOf(type, id)
      const own = this.#written.get(key)
      const text = own === undefined ? this.#before.get(key) : own
      if (text !== undefined && text !== before) foreseen.push({ at, text })
    }
    return foreseen
  }

  /** Takes note of the writes that a call told of. */
  note(told: readonly string[]): void {
    try {
      for (const text of told) this.#noteWrite(parseJson(text))
    } catch {
      // No JSON, or none that can be kept: the main thread refuses it.
    }
  }

  #noteWrite(write: Json): void {
    if (!isJsonObject(write)) return
    const { resources, type, ids } = write
    if (Array.isArray(resources)) for (const each of resources) this.#noteResource(each)
    if (!Array.isArray(ids)) return
    for (const id of ids) this.#written.set(keyOf(String(type), String(id)), null)
  }

  #noteResource(resource: Json): void {
    if (!isJsonObject(resource)) return
    const type = String(resource.$class)
    const identifier = this.#identifiers.get(type)
    if (identifier === undefined) return
    this.#written.set(keyOf(type, String(resource[identifier])), canonicalJson(resource))
  }
}

/** `known` with what was foreseen in its place, as a JSON array. */
export function knownText(known: readonly Known[], foreseen: readonly Foreseen[]): string {
  const texts = known.map(({ text }) => text)
  for (const { at, text } of foreseen) texts[at] = text
  return `[${texts.filter((text) => text !== null).join(',')}]`
}

function keyOf(type: string, id: string): string {
  return `${type}#${id}`
}

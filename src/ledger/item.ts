import { canonicalJson, canonicalString } from '../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import type { PlainObject } from '../base/plain-json.ts'
import { LedgerError } from './errors.ts'
import { ITEM_BYTES_MAX } from './unit-of-work.ts'

/** An item, or a merge patch of one, as it was sent. */
export type Item = JsonObject | PlainItem

/**
 * An item that was plainly written: no values are made of it, its canonical
 * text is kept in two parts, for its id may have to be put between them.
 */
export class PlainItem {
  /** Its member `id`; undefined when it has none. */
  readonly id: Json | undefined
  /** The members before `id`, each with its comma. */
  readonly #before: string
  /** Those after it, likewise. */
  readonly #after: string

  constructor({ names, texts }: PlainObject) {
    let id: Json | undefined
    let before = ''
    let after = ''
    for (let at = 0; at < names.length; at += 1) {
      const name = names[at] as string
      const text = texts[at] as string
      if (name < 'id') before += `"${name}":${text},`
      else if (name > 'id') after += `,"${name}":${text}`
      else id = JSON.parse(text)
    }
    this.id = id
    this.#before = before
    this.#after = after
  }

  /** It as canonical JSON, with `id`. */
  textWith(id: string): string {
    return `{${this.#before}"id":${canonicalString(id)}${this.#after}}`
  }

  /** It as canonical JSON, as it was sent. */
  text(): string {
    if (this.id !== undefined) return `{${this.#before}"id":${canonicalJson(this.id)}${this.#after}}`
    if (this.#before === '') return `{${this.#after.slice(1)}}`
    const before = this.#before.slice(0, -1)
    return `{${before}${this.#after}}`
  }
}

/** Whether `value` is an item: not a value of another kind, nor a list. */
export function isItem(value: unknown): value is Item {
  return value instanceof PlainItem || isJsonObject(value)
}

/** The canonical text of `item`, with `id` when that is given. Errors: ITEM_TOO_LARGE. */
export function itemText(item: Item, id?: string): string {
  const text = item instanceof PlainItem ? plainText(item, id) : canonicalJson(withId(item, id))
  // A UTF-16 unit is at most three bytes of UTF-8.
  if (text.length * 3 > ITEM_BYTES_MAX && Buffer.byteLength(text) > ITEM_BYTES_MAX) {
    throw new LedgerError('ITEM_TOO_LARGE', `an item may have ${ITEM_BYTES_MAX} bytes`)
  }
  return text
}

function plainText(item: PlainItem, id?: string): string {
  return id === undefined ? item.text() : item.textWith(id)
}

function withId(item: JsonObject, id?: string): JsonObject {
  return id === undefined ? item : { ...item, id }
}

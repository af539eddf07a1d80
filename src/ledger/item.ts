import { canonicalJson, canonicalString } from '../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseJson } from '../base/parse-json.ts'
import { type PlainObject, plainObjects, textOfPlain } from '../base/plain-json.ts'
import { parseStrictText } from '../base/strict-text.ts'
import { LedgerError } from './errors.ts'
import { ITEM_BYTES_MAX } from './unit-of-work.ts'

/** An item, or a merge patch of one, as it was sent. */
export type Item = JsonObject | PlainItem

const ID = 'id'
const ID_START = '"id":'

/** An item that was plainly written: its canonical text is there already, no values are made of it. */
export class PlainItem {
  /** Its member `id`; undefined when it has none. */
  readonly id: Json | undefined
  readonly #object: PlainObject

  constructor(object: PlainObject) {
    this.#object = object
    const at = object.names.indexOf(ID)
    this.id = at === -1 ? undefined : parseJson(object.members[at]?.slice(ID_START.length) ?? '')
  }

  /** It as canonical JSON; with `id` where that is given. */
  text(id?: string): string {
    const { names, members } = this.#object
    if (id === undefined) return textOfPlain(this.#object)
    const own = `${ID_START}${canonicalString(id)}`
    let at = 0
    while (at < names.length && (names[at] as string) < ID) at += 1
    return textOfPlain({ names, members: members.toSpliced(at, names[at] === ID ? 1 : 0, own) })
  }
}

/** Whether `value` is an item: not a value of another kind, nor a list. */
export function isItem(value: unknown): value is Item {
  return value instanceof PlainItem || isJsonObject(value)
}

/** The canonical text of `item`, with `id` when that is given. Errors: ITEM_TOO_LARGE. */
export function itemText(item: Item, id?: string): string {
  const text = item instanceof PlainItem ? item.text(id) : canonicalJson(withId(item, id))
  // A UTF-16 unit is at most three bytes of UTF-8.
  if (text.length * 3 > ITEM_BYTES_MAX && Buffer.byteLength(text) > ITEM_BYTES_MAX) {
    throw new LedgerError('ITEM_TOO_LARGE', `an item may have ${ITEM_BYTES_MAX} bytes`)
  }
  return text
}

function withId(item: JsonObject, id?: string): JsonObject {
  return id === undefined ? item : { ...item, id }
}

/**
 * What `parseStrictText` makes of the text of a body; but of an object or a list of objects that is
 * plainly written, without making values. Errors: StrictJsonError.
 */
export function parseItems(text: string): Json | PlainItem | PlainItem[] {
  const found = plainObjects(text)
  if (found === null) return parseStrictText(text)
  return 'names' in found ? new PlainItem(found) : found.map((object) => new PlainItem(object))
}

/** The canonical text of what a body parser gave; null where there is none. */
export function bodyText(body: unknown): string | null {
  if (body === undefined || body === null) return null
  if (body instanceof PlainItem) return body.text()
  if (Array.isArray(body) && body[0] instanceof PlainItem) {
    return `[${body.map((item: PlainItem) => item.text()).join(',')}]`
  }
  return canonicalJson(body as Json)
}

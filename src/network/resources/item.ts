import { canonicalJson, canonicalString } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { storedJson } from '../../ledger/core.ts'
import type { Target } from '../model/relationship.ts'

/** Bytes of an item's id in the ledger. */
const ITEM_ID_BYTES_MAX = 256

/** Characters that an item's id cannot have. */
const NOT_IN_IDS = /[%/\u0000-\u001f\u007f-\u009f]/
const EACH_NOT_IN_IDS = new RegExp(NOT_IN_IDS, 'g')

/**
 * The id of a resource's item in the ledger: `<qualified type>#<id>`. Percent signs, slashes and
 * control characters of the id are percent-encoded, so two resources never share an item.
 */
export function itemIdOf({ type, id }: Target): string {
  // A test costs a fraction of a replacement, and most ids need none.
  const text = NOT_IN_IDS.test(id) ? id.replace(EACH_NOT_IN_IDS, encodeURIComponent) : id
  return `${type}#${text}`
}

/** The resource that an item's id names, or null when it names none. */
export function targetOfItem(itemId: string): Target | null {
  const hash = itemId.indexOf('#')
  if (hash === -1) return null
  return { type: itemId.slice(0, hash), id: idIn(itemId.slice(hash + 1)) }
}

/** The id of a resource, from the part behind the `#` of its item's id. */
export function idIn(text: string): string {
  return text.replace(/(?:%[0-9A-F]{2})+/g, decodeURIComponent)
}

/** Whether the ledger can keep a resource of this id. */
export function canBeItem(target: Target): boolean {
  return target.id.isWellFormed() && Buffer.byteLength(itemIdOf(target)) <= ITEM_ID_BYTES_MAX
}

/** The item of a resource. */
export function itemOf(target: Target, resource: JsonObject): JsonObject {
  return { id: itemIdOf(target), resource }
}

/** The text of the resource in the text of its item, which is canonical. */
export function resourceTextIn(itemId: string, itemText: string): string {
  const head = `{"id":${canonicalString(itemId)},"resource":`
  if (itemText.startsWith(head)) return itemText.slice(head.length, -1)
  // The item of the network itself has its archive in front of its resource.
  return canonicalJson(objectIn(itemText).resource ?? null)
}

/** The object that a stored text holds. */
export function objectIn(text: string): JsonObject {
  const value: Json = storedJson(text)
  return isJsonObject(value) ? value : {}
}

import { isCount, isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import type { Block } from './block.ts'
import { ENTRIES_BYTES_MAX, ENTRIES_MAX } from './entry.ts'
import { fromHex, HASH_BYTES, toHex } from './hashes.ts'

const HASH_HEX = /^[0-9a-f]{64}$/
const ZEROS = '0'.repeat(HASH_BYTES * 2)

/** Returns a block as JSON text with exactly the five documented fields, as in `GET /api/ledgers`. */
export function blockJson(block: Block): string {
  const prevId = block.prevId === null ? 'null' : `"${block.prevId}"`
  return (
    `{"prev_id":${prevId},"body":[${block.entries.join(',')}],` +
    `"timestamps":[${block.timestamps.join(',')}],"nonce":${block.nonce},"id":"${block.id}"}`
  )
}

/**
 * Returns a block and its proof as JSON text with the five documented fields and `proof`, as in `GET
 * /api/ledgers?proof=1` and in exports. The blind of an erased entry, 32 zero bytes in a store, becomes `null`.
 */
export function provenBlockJson(block: Block): string {
  return (
    `${blockJson(block).slice(0, -1)},"proof":{"height":${block.height},"root":"${block.root}",` +
    `"blinds":${hexListJson(block.blinds, 'null')},` +
    `"commitments":${hexListJson(block.commitments, `"${ZEROS}"`)}}}`
  )
}

/** Prints hashes as a JSON list of hexadecimal texts. Prints `zeros` for 32 zero bytes. */
function hexListJson(hashes: Uint8Array, zeros: string): string {
  const hex = toHex(hashes)
  let list = ''
  for (let at = 0; at < hex.length; at += ZEROS.length) {
    const hash = hex.slice(at, at + ZEROS.length)
    list += `${at === 0 ? '' : ','}${hash === ZEROS ? zeros : `"${hash}"`}`
  }
  return `[${list}]`
}

/** Maximum bytes per entry without its text: a timestamp of 16 digits, blind, commitment and commas are 152 bytes. */
const ENTRY_PROOF_BYTES_MAX = 160
/** Maximum bytes of the members that a block has once: ids, root, nonce and height. */
const BLOCK_FRAME_BYTES_MAX = 1_024
/** Maximum bytes of the output of `provenBlockJson` without its entries. */
export const BLOCK_END_LENGTH_MAX: number =
  ENTRIES_MAX * ENTRY_PROOF_BYTES_MAX + BLOCK_FRAME_BYTES_MAX
/** Maximum bytes of the output of `provenBlockJson`. */
export const PROVEN_BLOCK_BYTES_MAX: number = ENTRIES_BYTES_MAX + BLOCK_END_LENGTH_MAX

/** A block that was decoded from JSON. Its entries are still JSON values. */
export interface BlockParts extends Omit<Block, 'serverId' | 'entries'> {
  readonly body: readonly Json[]
}

/**
 * Decodes the output of `provenBlockJson`, or returns a sentence about the first error. Checks types and lengths;
 * `verifyBlock` checks the hashes, the link and the timestamps.
 */
export function parseBlockParts(value: Json): BlockParts | string {
  if (!isJsonObject(value)) return 'it is not an object'
  const { prev_id: prevId, body, timestamps, nonce, id, proof } = value
  if (prevId !== null && typeof prevId !== 'string') return 'prev_id is neither an id nor null'
  if (!Array.isArray(body)) return 'body is not a list'
  if (!isIntegerList(timestamps)) return 'timestamps is not a list of integers'
  if (!isCount(nonce)) return 'nonce is not an integer'
  if (typeof id !== 'string') return 'id is not a string'
  if (!isJsonObject(proof)) return 'there is no proof'
  const { height, root } = proof
  if (!isCount(height)) return 'proof.height is not an integer'
  if (typeof root !== 'string') return 'proof.root is not a string'
  const blinds = decodeHashes(proof, 'blinds', null)
  if (typeof blinds === 'string') return blinds
  const commitments = decodeHashes(proof, 'commitments', ZEROS)
  if (typeof commitments === 'string') return commitments
  return { prevId, body, timestamps, nonce, id, height, root, blinds, commitments }
}

function isIntegerList(value: Json | undefined): value is number[] {
  return Array.isArray(value) && value.every((one) => Number.isSafeInteger(one))
}

/** Decodes the list `proof[name]`. The value `zeros` stands for 32 zero bytes. */
function decodeHashes(proof: JsonObject, name: string, zeros: null | string): Uint8Array | string {
  const list = proof[name]
  if (!Array.isArray(list)) return `proof.${name} is not a list`
  const hashes = list.map((hex) => (hex === zeros ? ZEROS : hex))
  const wrong = hashes.findIndex((hex) => typeof hex !== 'string' || !HASH_HEX.test(hex))
  return wrong === -1
    ? new Uint8Array(fromHex(hashes.join('')))
    : `proof.${name}[${wrong}] is not 64 lowercase hex digits`
}

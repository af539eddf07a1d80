import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { type Block, blockJson } from './block.ts'
import { CutBlock, type ProvenBlockParts } from './cut-block.ts'
import { HASH_BYTES } from './log/hashes.ts'

/**
 * The block as JSON text with everything that proves it: the five documented fields and `proof`, as
 * `GET /api/ledgers?proof=1` shows it and an export keeps it. An entry that was erased has no blind:
 * 32 zeros in a store, `null` here.
 */
export function provenBlockJson(block: Block): string {
  return (
    `${blockJson(block).slice(0, -1)},"proof":{"height":${block.height},"root":"${block.root}",` +
    `"blinds":${hexListJson(block.blinds, 'null')},"commitments":${hexListJson(block.commitments)}}}`
  )
}

/**
 * The parts of the text that `provenBlockJson` gives, or a sentence about what is not there. Types
 * and lengths are checked here; whether they hold is for `verifyBlock` to say.
 */
export function provenBlockParts(value: Json | CutBlock): ProvenBlockParts | string {
  if (value instanceof CutBlock) return value.parts
  if (!isJsonObject(value)) return 'it is not an object'
  const { prev_id: prevId, body, timestamps, nonce, id, proof } = value
  if (prevId !== null && typeof prevId !== 'string') return 'prev_id is neither an id nor null'
  if (!Array.isArray(body)) return 'body is not a list'
  if (!isIntegerList(timestamps)) return 'timestamps is not a list of integers'
  if (!isCount(nonce)) return 'nonce is not an integer'
  if (typeof id !== 'string') return 'id is not a text'
  if (!isJsonObject(proof)) return 'there is no proof'
  const { height, root } = proof
  if (!isCount(height)) return 'proof.height is not an integer'
  if (typeof root !== 'string') return 'proof.root is not a text'
  const blinds = hashesOf(proof, 'blinds', null)
  if (typeof blinds === 'string') return blinds
  const commitments = hashesOf(proof, 'commitments')
  if (typeof commitments === 'string') return commitments
  return { prevId, body, timestamps, nonce, id, height, root, blinds, commitments }
}

function isCount(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function isIntegerList(value: Json | undefined): value is number[] {
  return Array.isArray(value) && value.every((one) => Number.isSafeInteger(one))
}

const HASH_HEX = /^[0-9a-f]{64}$/
const ZEROS = '0'.repeat(HASH_BYTES * 2)

/** `zeros` is how 32 zeros are written, where not as they are. */
function hashesOf(
  proof: JsonObject,
  name: string,
  zeros: null | string = ZEROS,
): Uint8Array | string {
  const list = proof[name]
  if (!Array.isArray(list)) return `proof.${name} is not a list`
  const bytes = Buffer.allocUnsafe(list.length * HASH_BYTES)
  for (const [index, given] of list.entries()) {
    const hex = given === zeros ? ZEROS : given
    if (typeof hex !== 'string' || !HASH_HEX.test(hex)) {
      return `proof.${name}[${index}] is not 64 lowercase hex digits`
    }
    bytes.write(hex, index * HASH_BYTES, 'hex')
  }
  return bytes
}

function hexListJson(hashes: Uint8Array, zeros = `"${ZEROS}"`): string {
  const hex = Buffer.from(hashes.buffer, hashes.byteOffset, hashes.length).toString('hex')
  let text = ''
  for (let at = 0; at < hex.length; at += HASH_BYTES * 2) {
    const one = hex.slice(at, at + HASH_BYTES * 2)
    text += `${at === 0 ? '' : ','}${one === ZEROS ? zeros : `"${one}"`}`
  }
  return `[${text}]`
}

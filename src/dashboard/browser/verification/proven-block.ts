import { isJsonObject, type Json } from '../../../base/json.ts'

/** A block with its proof, as it came; nothing of it is believed yet. */
export interface GivenBlock {
  readonly prevId: string | null
  readonly body: readonly Json[]
  readonly timestamps: readonly number[]
  readonly nonce: number
  readonly id: string
  readonly root: string
  /** Null where the entry was erased. */
  readonly blinds: readonly (Uint8Array | null)[]
  readonly commitments: readonly Uint8Array[]
}

const HASH_HEX = /^[0-9a-f]{64}$/

/** The block that `value` is, with `proof`, or null when it does not have the form of one. */
export function givenBlock(value: Json): GivenBlock | null {
  if (!isJsonObject(value)) return null
  const { prev_id: prevId = null, body, timestamps, nonce, id, proof } = value
  if (prevId !== null && typeof prevId !== 'string') return null
  if (!Array.isArray(body) || !Array.isArray(timestamps) || !isCount(nonce)) return null
  if (typeof id !== 'string' || !isJsonObject(proof)) return null
  const { root, blinds, commitments } = proof
  if (typeof root !== 'string' || !Array.isArray(blinds) || !Array.isArray(commitments)) return null
  if (!timestamps.every((one) => typeof one === 'number' && Number.isSafeInteger(one))) return null
  if (!commitments.every(isHash) || !blinds.every((one) => one === null || isHash(one))) return null
  return {
    prevId,
    body,
    timestamps: timestamps.filter((one) => typeof one === 'number'),
    nonce,
    id,
    root,
    blinds: blinds.map((one) => (typeof one === 'string' ? bytesOf(one) : null)),
    commitments: commitments.filter((one) => typeof one === 'string').map(bytesOf),
  }
}

function isCount(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function isHash(value: Json): boolean {
  return typeof value === 'string' && HASH_HEX.test(value)
}

function bytesOf(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2)
  for (let at = 0; at < bytes.length; at += 1) {
    bytes[at] = Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16)
  }
  return bytes
}

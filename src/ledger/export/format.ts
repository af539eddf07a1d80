import { createPublicKey, type KeyObject } from 'node:crypto'
import { isJsonObject, type Json } from '../../base/json.ts'
import { serverIdOfRaw } from '../../chain/index.ts'

/**
 * An export is a chain as lines of JSON: a header, a line for each block (`provenBlockJson`), and an
 * end, so that a file that was cut short is noticed. Every line has exactly one form.
 * Source: docs/reference/export.md.
 */
export const EXPORT_VERSION = 1

/** The first line. */
export interface ExportHeader {
  readonly version: number
  readonly serverId: number
  /** How many blocks follow. */
  readonly size: number
  /** The id of the last block, or null when there is none. */
  readonly headId: string | null
  /** The node's raw Ed25519 key, 64 lowercase hex digits, or null when it was not at hand. */
  readonly publicKey: string | null
}

/** The last line: what stands before it. */
export interface ExportEnd {
  readonly blocks: number
  readonly entries: number
  readonly headId: string | null
}

/** The text of the first line, without the line break. */
export function headerLine({ version, serverId, size, headId, publicKey }: ExportHeader): string {
  return JSON.stringify({
    daicho: 'export',
    version,
    serverid: serverId,
    size,
    head: headId,
    public_key: publicKey,
  })
}

/** The text of the last line, without the line break. */
export function endLine({ blocks, entries, headId }: ExportEnd): string {
  return JSON.stringify({ daicho: 'end', blocks, entries, head: headId })
}

/** What the first line says, or null when it is no header; of a newer version only that is known. */
export function headerOf(value: Json): ExportHeader | null {
  if (!isJsonObject(value) || value.daicho !== 'export') return null
  const { version, serverid, size, head = null, public_key = null } = value
  if (!isCount(version) || version < 1 || !isCount(serverid) || !isCount(size)) return null
  if (head !== null && typeof head !== 'string') return null
  if (public_key !== null && typeof public_key !== 'string') return null
  return { version, serverId: serverid, size, headId: head, publicKey: public_key }
}

function isCount(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** The raw bytes of an Ed25519 public key, as a header has them. */
export function publicKeyHex(key: KeyObject): string {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' })
  return Buffer.from(x, 'base64url').toString('hex')
}

/** The server id that a header's public key stands for, or null when it is no key. */
export function serverIdOfHex(publicKey: string): number | null {
  if (!/^[0-9a-f]{64}$/.test(publicKey)) return null
  return serverIdOfRaw(Buffer.from(publicKey, 'hex'))
}
